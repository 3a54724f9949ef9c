"""Batched drawing of simple 3-D scenes, without OpenGL."""

from discern.rendering.caster import Poses, Stage, draw, set_stage, silhouettes

__all__ = ["Poses", "Stage", "draw", "set_stage", "silhouettes"]
