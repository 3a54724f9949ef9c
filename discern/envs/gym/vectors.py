"""Gymnasium's vector environments, which step many at once by themselves; nothing of discern is imported here."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from .actions import action_list, known_names
from .looks import RESET, STEP, RefusedError, is_image, measure, parts, refuse_unmeasured, rendered, shrunk

MODES = "set its metadata['autoreset_mode'] to a gymnasium.vector.AutoresetMode"
Shown = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # uint8 [n, S, S, 3], float32 [n, D], bool [n], bool [n]


class Vector:
    """A vector environment, which holds all of a process's share.

    The step that ends an episode shows its last frame in every autoreset mode. In NEXT_STEP the step after it begins an
    episode; in the other modes that step has played its action already.
    """

    dimensions: tuple = ()

    def __init__(self, env: VectorEnv, settings: dict[str, Any]):
        self._env, self._size = env, settings["size"]
        self.actions = action_list(env.single_action_space, settings, known_names(env))
        self._from_observation = is_image(env.single_observation_space) and not settings["render"]
        self._scored, self._mode = settings["score"], reset_mode(env)
        self._over = np.zeros(env.num_envs, bool)
        if settings["frame_skip"] > 1:
            raise RefusedError("is a vector, whose episodes end one by one: leave --gym.frame-skip at 1")
        if self._mode == AutoresetMode.SAME_STEP and not self._from_observation:
            raise RefusedError("renders no episode's last frame: make it with the autoreset mode NEXT_STEP")

    def prove(self) -> None:
        """One step, so that what cannot work is known before a run begins."""
        self.step(np.tile([0, 0], (len(self._over), 1)))
        _, measures, _, _ = self.step(np.tile([0, -1], (len(self._over), 1)))
        refuse_unmeasured(measures[0], self._scored, self._info)

    def step(self, actions_and_seeds: np.ndarray) -> Shown:
        """Plays int [n, 2]: an action, and the seed of an episode to start instead, in all or in none, or −1."""
        actions, seeds = actions_and_seeds.T
        if (seeds >= 0).any():
            observation, self._info = parts(self._reset(seeds.tolist()), "reset", RESET)
            is_first, over = np.ones(len(seeds), bool), np.zeros(len(seeds), bool)
        else:
            chosen = np.stack([self.actions.values[action] for action in actions])
            observation, _, terminated, truncated, self._info = parts(self._env.step(chosen), "step", STEP)
            is_first, over = self._over, np.asarray(terminated, bool) | np.asarray(truncated, bool)
        observations, infos = list(observation), [row_of(self._info, i) for i in range(len(seeds))]
        if self._mode == AutoresetMode.SAME_STEP:
            for i in np.flatnonzero(over).tolist():
                observations[i], infos[i] = self._last(i)
        images, did = (observations, "observed") if self._from_observation else (rendered(self._env), "rendered")
        if not isinstance(images, list | tuple | np.ndarray) or len(images) != len(seeds):
            raise RefusedError(f"shows no pixels: it must render {len(seeds)} frames, uint8 [height, width, 3] each")
        shown = np.stack([shrunk(np.asarray(image), self._size, did) for image in images])
        measures = [[measure(name, *seen) for name in self._scored] for seen in zip(observations, infos, strict=True)]
        if self._mode == AutoresetMode.DISABLED and over.any():
            self._env.reset(options={"reset_mask": over})
        self._over = over
        return shown, np.array(measures, np.float32).reshape(len(seeds), -1), is_first, over

    def _reset(self, seeds: Any) -> Any:
        """By a list of seeds, or by the first of them where the vector takes but one."""
        try:
            return self._env.reset(seed=seeds)
        except (TypeError, ValueError, gymnasium.error.Error):
            return self._env.reset(seed=seeds[0])

    def _last(self, i: int) -> tuple[Any, dict[str, Any]]:
        """What an episode ended with that environment i has begun anew in the same step."""
        if "final_obs" not in self._info:
            raise RefusedError(
                "ends an episode without its info['final_obs']: make it with the autoreset mode NEXT_STEP"
            )
        return self._info["final_obs"][i], row_of(self._info.get("final_info", {}), i)

    def close(self) -> None:
        self._env.close()


def reset_mode(env: VectorEnv) -> AutoresetMode:
    """When the vector begins the next episode of one that has ended."""
    try:
        return AutoresetMode(env.metadata["autoreset_mode"])
    except (KeyError, ValueError, TypeError):
        raise RefusedError(f"is a vector that does not say when its episodes begin: {MODES}") from None


def row_of(info: dict[str, Any], i: int) -> dict[str, Any]:
    """What a vector's info says of environment i: each entry with an underscore before it says of whom there is one."""
    arrays = {name: values for name, values in info.items() if isinstance(values, np.ndarray) and values.ndim}
    return {
        name: values[i]
        for name, values in arrays.items()
        if name[:1] != "_" and info.get(f"_{name}", [True] * (i + 1))[i]
    }
