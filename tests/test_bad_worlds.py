"""Worlds that are not there, or cannot be acted in: one sentence before a run begins, and nothing is written."""

from pathlib import Path
from typing import Any

import pytest

from discern.envs.gym.worlds import Worlds
from discern.envs.processes import failure
from discern.types import UserError
from tests.refusals import Refused, refused

__all__ = ["refused"]

STAND_IN = str(Path(__file__).parent / "stand_in")

SMALL = (
    "--actor.environments 2 --actor.horizon 5 --actor.warm-up 1 --learner.batch 2 --replay-capacity 4 "
    "--reward.decoy-pool None --goal-buffer.capacity 6 --network.channels 4 4 --network.features 4 --network.lstm 4"
)

NAMES = [
    ("''", "there is no world ''; there are: arena"),
    ("moon", "there is no world 'moon'; there are: arena, arena/16, arena/84,"),
    ("arenna", "there is no world 'arenna': did you mean arena?"),
    ("arena/85", "did you mean arena/84?"),
    ("arena/", "there is no world 'arena/'"),
    ("Arena", "did you mean arena?"),
    ("watermaize", "did you mean watermaze?"),
    ("atari", "there is no world 'atari'"),
    ("atary/seaquest", "did you mean atari/seaquest?"),
    ("seaquest", "did you mean atari/seaquest?"),
    ("atari/", "there is no Atari game ''"),
    ("atari/seequest", "there is no Atari game 'seequest': did you mean seaquest?"),
    ("atari/moon", "there is no Atari game 'moon'"),
    ("control", "there is no world 'control'"),
    ("control/", "there is no world 'control/'; there are: control/"),
    ("control/reacher", "there is no world 'control/reacher'; there are: control/"),
    ("control/humanoid-run", "there is no world 'control/humanoid-run'; there are: control/"),
    (
        f"control/pendulum-swingup --evaluation-goals 101 {SMALL} --reward.kind temporal --actor.twins 1",
        "has 100 goals, not 101",
    ),
    ("lab", "there is no world 'lab'"),
    ("lab/nothing", "there is no world 'lab/nothing'; there are: lab/rooms_watermaze"),
    ("lab/rooms_watermaze", "lab/rooms_watermaze needs DeepMind Lab"),
    ("gym", "there is no world 'gym'"),
    ("minigrid", "there is no world 'minigrid'"),
    ("highway/parking-v1 --control.episode 5", "--control.episode is for worlds control/…"),
    ("highwai/parking-v0", "did you mean highway/parking-v0?"),
    ("arena --replay-capacity 999999999", "set --replay-capacity to"),
]

ROOM = "minigrid/MiniGrid-Empty-8x8-v0"
AT_ITS_END = """--gym.make-args '{"mode": "SameStep", "render": true}'"""

GYMS = [
    ("gym/", "gym/ raised"),
    ("gym/Nothing-v0", "gym/Nothing-v0 raised NameNotFound"),
    ("gym/CartPole-v99", "gym/CartPole-v99 raised"),
    ("gym/CartPole-v1 --gym.make-args '{\"wheels\": 3}'", "raised TypeError"),
    ("gym/Pendulum-v1 --gym.vector", "has no vectorised implementation of its own: leave --gym.vector out"),
    ("gym/MiniGrid-Empty-8x8-v0", "has a suite of its own: train in minigrid/MiniGrid-Empty-8x8-v0"),
    ("gym/parking-v0", "has a suite of its own: train in highway/parking-v0"),
    ("minigrid/", "is no world of minigrid: did you mean minigrid/MiniGrid-Empty-8x8-v0?"),
    ("minigrid/moon", "is no world of minigrid: did you mean minigrid/MiniGrid-Empty-8x8-v0?"),
    ("minigrid/MiniGrid-FourRoms-v0", "did you mean minigrid/MiniGrid-FourRooms-v0?"),
    ("minigrid/CartPole-v1", "is no world of minigrid: train in gym/CartPole-v1"),
    ("minigrid/parking-v0", "is no world of minigrid: train in highway/parking-v0"),
    ("minigrid/os:MiniGrid-Empty-8x8-v0", "is no world of minigrid: did you mean"),
    (f"{ROOM} --gym.vector", "has no vectorised implementation of its own"),
    (f"{ROOM} --gym.score z:0:1", "has no number 'z' to score: its info holds x, y, direction"),
    (f"{ROOM} --gym.make-args '{{\"render_mode\": null}}'", "shows no pixels"),
    (f"{ROOM} --atari.sticky 0.1", "--atari.sticky is for worlds atari/…"),
    ("highway/parking", "is no world of highway_env: did you mean highway/parking-v0?"),
    ("highway/rondabout-v1", "is no world of highway_env: did you mean highway/roundabout-v1?"),
    ("highway/intersection-multi-agent-v2", "no list to choose from: Tuple("),
    ("tiny_worlds:three_dots", "gave 3 environments where 1 were asked for by its parameter num_envs"),
    ("tiny_worlds:dots_that_reset_somehow", "does not say when its episodes begin: set its metadata['autoreset_mode']"),
    (f"tiny_worlds:dots {AT_ITS_END}", "renders no episode's last frame: make it with the autoreset mode NEXT_STEP"),
    ("tiny_worlds:dots --gym.frame-skip 2", "whose episodes end one by one: leave --gym.frame-skip at 1"),
    ("tiny_worlds:dots --gym.score z:0:1", "has no number 'z' to score: its info holds x, y, steps"),
    ("tiny_worlds:dots --actor.p-restart 0.5", "is a vector, which restarts as a whole: leave --actor.twins at 1"),
    ("nowhere:make", "nowhere:make raised ModuleNotFoundError: No module named 'nowhere'"),
    (":make", ":make raised ValueError: Empty module name"),
    ("tiny_worlds:", "tiny_worlds: raised AttributeError"),
    ("tiny_worlds:nothing", "has no attribute 'nothing'"),
    ("tiny_worlds:Dot.nothing", "has no attribute 'nothing'"),
    ("tiny_worlds:not_a_factory", "raised TypeError: 3 is not a callable object"),
    ("tiny_worlds:needs", "missing 1 required positional argument: 'floor'"),
    ("tiny_worlds:Dot --gym.make-args '{\"wheels\": 3}'", "unexpected keyword argument 'wheels'"),
    ("tiny_worlds:arm --gym.actions corners", "would have 6561 actions, more than 1024: take fewer --gym.bins"),
    ("tiny_worlds:arm --gym.bins 1", "--gym.bins must be at least 2"),
    ("tiny_worlds:arm --gym.actions corner", "--gym.actions takes auto, corners or one_at_a_time, not 'corner'"),
    ("tiny_worlds:named_actions", "no list to choose from: Dict('gas': Discrete(2))"),
    ("tiny_worlds:several_actions", "no list to choose from: Tuple(Discrete(2), Discrete(2)); wrap it so that"),
    ("tiny_worlds:unbounded", "has actions without bounds"),
    ("tiny_worlds:blind", "shows no pixels: it must observe uint8 [height, width, 3] or render"),
    ("tiny_worlds:Dot --gym.render", "it rendered None"),
    ("tiny_worlds:Empty", "shows no pixels: it must observe uint8 [height, width, 3]"),
    ("tiny_worlds:Bright", "but it observed float64 [16, 16, 3]"),
    ("tiny_worlds:Shrinking", "observes [8, 16, 3], but its observation space says [16, 16, 3]"),
    ("tiny_worlds:OldReset", "its reset() must return observation, info, not ndarray"),
    ("tiny_worlds:OldStep", "its step() must return observation, reward, terminated, truncated, info, not 4 values"),
    ("tiny_worlds:Stuck", "raised ZeroDivisionError: no floor to stand on (tiny_worlds.py, line"),
    ("tiny_worlds:raising", "raised RuntimeError: no licence found (tiny_worlds.py, line"),
    ("tiny_worlds:something_else", "gave builtins.list, which is no gymnasium.Env or VectorEnv"),
    ("tiny_worlds:nothing_at_all", "gave builtins.NoneType, which is no gymnasium.Env or VectorEnv"),
    ("tiny_worlds:Dot --gym.score z:0:1", "has no number 'z' to score: its info holds x, y, steps"),
    ("tiny_worlds:Dot --gym.score observation[9999]:0:1", "has no number 'observation[9999]' to score"),
    ("tiny_worlds:Dot --gym.score x:0", "--gym.score takes name:low:high"),
    ("tiny_worlds:Dot --gym.score x", "--gym.score takes name:low:high"),
    ("tiny_worlds:Dot --gym.score :0:1", "must have a name"),
    ("tiny_worlds:Dot --gym.score x:2:1", "a low end below its high end"),
    ("tiny_worlds:Dot --gym.score x:nan:1", "a low end below its high end"),
    ("tiny_worlds:Dot --gym.score x:0:inf", "a low end below its high end"),
    ("tiny_worlds:Dot --gym.make-args [1]", "--gym.make-args takes a JSON object"),
    ("tiny_worlds:Dot --gym.make-args '{'", "--gym.make-args takes a JSON object"),
]


class Here:
    """Serves in this very process, and so at once, what a process of its own would."""

    def __init__(self, name: str, file: str, kind: str, settings: tuple, *_: Any):
        self.name, self.worlds = name, Worlds(*settings)

    def ask(self, method: str, argument: Any, times: int = 1) -> None:
        self.asked = method, argument

    def answer(self) -> Any:
        method, argument = self.asked
        try:
            return getattr(self.worlds, method)(argument)
        except Exception as error:
            raise UserError(f"{self.name} {failure(error)}") from None

    def close(self) -> None:
        self.worlds.close()

    kill = close


@pytest.mark.parametrize(("line", "sentence"), NAMES)
def test_names(refused: Refused, line, sentence):
    assert sentence in refused(f"train {line}")


@pytest.mark.parametrize(("line", "sentence"), GYMS)
def test_environments(refused: Refused, monkeypatch, line, sentence):
    monkeypatch.syspath_prepend(STAND_IN)
    monkeypatch.setattr("discern.envs.gym.world.Process", Here)
    assert sentence in refused(f"train {line}")
