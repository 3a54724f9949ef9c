# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6", "ale-py>=0.11", "gymnasium>=1.1", "numpy"]
# ///
"""A peer to be measured beside: recurrent PQN on Atari, in PyTorch, alone in this file.

    uv run benchmarks/peers/pqn_lstm.py --game seaquest --environments 480 --network discern --rgb --seconds 30

Written from the paper (Gallici et al. 2024, Simplifying Deep Temporal Difference Learning) and from what CleanRL's
documentation says of pqn_atari_envpool_lstm: Q-learning without replay and without target network; layer norm; parallel
environments; Q(λ) returns of short rollouts; ε-greedy; several epochs of minibatches, each of whole sequences of some
environments; an LSTM that starts where the rollout's did, and from zeros after an episode's end; single frames; RAdam;
gradients clipped by their global norm; orthogonal weights.
The defaults are the paper's for Atari; the environments are ale-py's own vector environments, where CleanRL has
EnvPool's. It prints one line of JSON.
"""

import argparse
import itertools
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

try:
    import torch
    from torch import nn
except ModuleNotFoundError:  # no dependency of the project
    torch = None

NETWORKS = {  # channels, kernel and stride of each convolution, and what follows them
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
    "discern": (((32, 8, 4), (64, 4, 2)), 256),
}
SIDE = 84
EPISODES = 100  # the last ones, that the mean return is of


class Rollout(NamedTuple):
    """T steps of N environments, [T, N, …]; the LSTM's state [1, N, U] twice is that of the first one."""

    observations: Any
    actions: Any
    rewards: Any
    is_first: np.ndarray
    """Whether an observation begins an episode; on the host, where it decides how to unroll."""
    best: Any
    """The greatest Q-value of each observation, and of the one after the last: [T + 1, N]."""
    ends: Any
    """Whether the episode ended with the step, 0 or 1."""
    lstm: tuple[Any, Any]


def lambda_returns(rewards: Sequence, ends: Sequence, best: Sequence, discount: float, lambda_: float) -> list:
    """Q(λ): G_t = r_t + γ (1 − end_t) (λ G_{t+1} + (1 − λ) max_a Q(s_{t+1}, a)); of T steps, with T + 1 best values."""
    following, returns = best[-1], []
    for t in reversed(range(len(rewards))):
        following = rewards[t] + discount * (1 - ends[t]) * (lambda_ * following + (1 - lambda_) * best[t + 1])
        returns.append(following)
    return returns[::-1]


def stretches(is_first: np.ndarray) -> list[tuple[int, int]]:
    """From bool [T, N] to the stretches of steps in which no episode begins, but at their start, in none of the N."""
    starts = [0, *(t for t in range(1, len(is_first)) if is_first[t].any()), len(is_first)]
    return list(itertools.pairwise(starts))


def make_network(name: str, channels: int, actions: int, lstm: int) -> "nn.ModuleDict":
    """Convolutions and a dense layer, each with layer norm; an LSTM; Q-values."""

    def orthogonal(layer: Any, scale: float = 2**0.5) -> Any:
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
        return layer

    layers, side = [], SIDE
    convolutions, features = NETWORKS[name]
    for maps, kernel, stride in convolutions:
        side = (side - kernel) // stride + 1
        layers += [orthogonal(nn.Conv2d(channels, maps, kernel, stride)), nn.LayerNorm([maps, side, side]), nn.ReLU()]
        channels = maps
    layers += [nn.Flatten(), orthogonal(nn.Linear(channels * side * side, features)), nn.LayerNorm(features), nn.ReLU()]
    core = nn.LSTM(features, lstm)
    for parameter, values in core.named_parameters():
        (nn.init.zeros_ if "bias" in parameter else nn.init.orthogonal_)(values)
    head = orthogonal(nn.Linear(lstm, actions), 0.01)
    return nn.ModuleDict({"torso": nn.Sequential(*layers), "lstm": core, "head": head})


class Learner:
    """The network and its optimiser."""

    def __init__(self, arguments: argparse.Namespace, channels: int, actions: int, device: "torch.device"):
        self.arguments, self.device = arguments, device
        self.network = make_network(arguments.network, channels, actions, arguments.lstm).to(device)
        self.optimiser = torch.optim.RAdam(self.network.parameters(), lr=arguments.learning_rate)
        half = device.type == "cuda" and not arguments.float32
        self.autocast = torch.autocast(device.type, torch.bfloat16, enabled=half)

    def q_values(self, observations: Any, is_first: np.ndarray, lstm: tuple[Any, Any]) -> tuple[Any, Any]:
        """uint8 [T, N, C, H, W] → [T, N, A]; one call of the LSTM for each stretch without a reset."""
        length, count = observations.shape[:2]
        with self.autocast:
            features = self.network["torso"](observations.flatten(0, 1).float() / 255)
        features = features.float().unflatten(0, (length, count))
        kept = torch.as_tensor(~is_first, dtype=torch.float32).to(self.device, non_blocking=True)
        hidden = []
        for start, end in stretches(is_first):
            mask = kept[start][None, :, None]
            out, lstm = self.network["lstm"](features[start:end], (lstm[0] * mask, lstm[1] * mask))
            hidden.append(out)
        return self.network["head"](torch.cat(hidden)), lstm

    def learn(self, rollout: Rollout, chance: np.random.Generator) -> Any:
        """Epochs of minibatches of environments, towards returns that were computed once; the mean loss."""
        asked = self.arguments
        returns = torch.stack(
            lambda_returns(rollout.rewards, rollout.ends, rollout.best, asked.discount, asked.lambda_)
        )
        losses = []
        for _ in range(asked.epochs):
            order = chance.permutation(asked.environments)
            for rows in np.array_split(order, min(asked.minibatches, asked.environments)):
                some = torch.as_tensor(rows).to(self.device)
                lstm = (rollout.lstm[0][:, some], rollout.lstm[1][:, some])
                q, _ = self.q_values(rollout.observations[:, some], rollout.is_first[:, rows], lstm)
                chosen = q.gather(-1, rollout.actions[:, some, None])[..., 0]
                loss = nn.functional.mse_loss(chosen, returns[:, some])
                self.optimiser.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(self.network.parameters(), asked.clip)
                self.optimiser.step()
                losses.append(loss.detach())
        return torch.stack(losses).mean()


class Player:
    """The environments, and where they are."""

    def __init__(self, arguments: argparse.Namespace, environments: Any, learner: Learner):
        self.arguments, self.environments, self.learner = arguments, environments, learner
        observation, _ = environments.reset(seed=arguments.seed)
        self.observation = self._seen(observation)
        count = arguments.environments
        self.is_first = np.ones(count, bool)
        self.lstm = tuple(torch.zeros(1, count, arguments.lstm, device=learner.device) for _ in range(2))
        self.steps = 0
        self.score, self.scores = np.zeros(count), deque(maxlen=EPISODES)

    def _seen(self, observation: np.ndarray) -> Any:
        """uint8 [N, stack, H, W] or [N, stack, H, W, 3] → [N, C, H, W] on the device."""
        seen = torch.as_tensor(observation).to(self.learner.device, non_blocking=True)
        return seen.movedim(-1, 2).flatten(1, 2).contiguous() if seen.ndim == 5 else seen

    def epsilon(self) -> float:
        asked = self.arguments
        if asked.epsilon is not None:
            return asked.epsilon
        done = min(1.0, self.steps / (asked.exploration_fraction * asked.total_steps))
        return asked.start_epsilon + done * (asked.end_epsilon - asked.start_epsilon)

    @property
    def actions(self) -> int:
        return int(self.environments.single_action_space.n)

    def rollout(self, chance: np.random.Generator) -> Rollout:
        began = self.lstm
        observations, chosen, rewards, is_first, best, ends = ([] for _ in range(6))
        for _ in range(self.arguments.rollout):
            observations.append(self.observation)
            is_first.append(self.is_first)
            q = self._look()
            best.append(q.max(-1).values)
            explore = chance.random(len(self.is_first)) < self.epsilon()
            anything = chance.integers(0, self.actions, len(self.is_first))
            actions = np.where(explore, anything, q.argmax(-1).cpu().numpy())
            seen, reward, terminated, truncated, _ = self.environments.step(actions)
            self.observation, self.is_first = self._seen(seen), terminated | truncated
            chosen.append(actions)
            rewards.append(reward)
            ends.append(self.is_first)
            self._count(reward)
        kept = self.lstm
        best.append(self._look().max(-1).values)  # of the step that the next rollout begins with
        self.lstm = kept
        return Rollout(
            torch.stack(observations),
            self._numbers(chosen, torch.int64),
            self._numbers(rewards, torch.float32),
            np.stack(is_first),
            torch.stack(best),
            self._numbers(ends, torch.float32),
            began,
        )

    def _numbers(self, of_steps: list[np.ndarray], dtype: Any) -> Any:
        return torch.as_tensor(np.stack(of_steps)).to(self.learner.device, dtype)

    def _look(self) -> Any:
        """Q-values of where the environments are, [N, A]; the LSTM goes on."""
        with torch.no_grad():
            q, self.lstm = self.learner.q_values(self.observation[None], self.is_first[None], self.lstm)
        return q[0]

    def _count(self, reward: np.ndarray) -> None:
        self.steps += len(reward)
        self.score += reward
        self.scores.extend(self.score[self.is_first])
        self.score[self.is_first] = 0.0


def atari(arguments: argparse.Namespace) -> Any:
    """ale-py's vector environments: an episode's end is a lost life, and the next one's first frame comes with it."""
    from ale_py.vector_env import AtariVectorEnv

    return AtariVectorEnv(
        arguments.game,
        arguments.environments,
        num_threads=arguments.threads,
        stack_num=arguments.stack,
        frameskip=arguments.frame_skip,
        grayscale=not arguments.rgb,
        episodic_life=True,
        reward_clipping=True,
        autoreset_mode="SameStep",
    )


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options: dict[str, tuple[Any, str]] = {
        "game": ("seaquest", "a ROM's name"),
        "environments": (128, "that step together"),
        "threads": (0, "of the emulators; 0: as many as cores"),
        "frame-skip": (4, "frames a step"),
        "stack": (1, "frames an observation"),
        "lstm": (128, "units"),
        "rollout": (32, "steps between two rounds of updates"),
        "minibatches": (32, "that the environments are split into"),
        "epochs": (2, "over a rollout: how often a step is trained on"),
        "discount": (0.99, ""),
        "lambda_": (0.65, "of the returns"),
        "learning-rate": (2.5e-4, ""),
        "clip": (10.0, "the gradient's largest norm"),
        "start-epsilon": (1.0, ""),
        "end-epsilon": (0.001, ""),
        "exploration-fraction": (0.1, "of the total steps, over which epsilon falls"),
        "total-steps": (10_000_000, "that epsilon's fall is reckoned by"),
        "warm-up": (3, "rollouts, with their updates, before the clock starts"),
        "seconds": (30.0, "that are timed, to the end of a rollout's updates"),
        "seed": (0, ""),
    }
    for name, (default, about) in options.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{about} (default: {default})")
    parser.add_argument("--network", choices=sorted(NETWORKS), default="nature")
    parser.add_argument("--epsilon", type=float, help="a fixed one: with 1 what is timed is random play")
    parser.add_argument("--rgb", action="store_true", help="colours, not grey")
    parser.add_argument("--float32", action="store_true", help="no bfloat16 convolutions on a GPU")
    return parser.parse_args(words)


def measure(arguments: argparse.Namespace, make: Callable[[argparse.Namespace], Any] = atari) -> dict[str, Any]:
    """Trains for a while, and says how fast it went."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(arguments.seed)
    torch.set_float32_matmul_precision("high")  # as JAX does on a GPU
    torch.backends.cudnn.benchmark = True
    environments = make(arguments)
    space = environments.single_observation_space.shape
    learner = Learner(arguments, int(np.prod(space)) // SIDE**2, int(environments.single_action_space.n), device)
    player, chance = Player(arguments, environments, learner), np.random.default_rng(arguments.seed)

    def turn() -> float:
        return float(learner.learn(player.rollout(chance), chance))  # waits for the device

    losses = [turn() for _ in range(arguments.warm_up)]
    before, turns, began = player.steps, 0, time.perf_counter()
    while turns == 0 or time.perf_counter() - began < arguments.seconds:
        losses.append(turn())
        turns += 1
    seconds = time.perf_counter() - began
    environments.close()
    steps = player.steps - before
    updates = turns * arguments.epochs * min(arguments.minibatches, arguments.environments)
    return {
        "steps_per_second": round(steps / seconds, 1),
        "frames_per_second": round(steps * arguments.frame_skip / seconds, 1),
        "updates_per_second": round(updates / seconds, 2),
        "trained_steps_per_second": round(steps * arguments.epochs / seconds, 1),
        "replay_ratio": arguments.epochs,
        "parameters": sum(each.numel() for each in learner.network.parameters()),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "seconds": round(seconds, 1),
        "steps": steps,
        "losses": [float(f"{loss:.4g}") for loss in (losses[0], losses[-1])],
        "mean_return_of_a_life": round(float(np.mean(player.scores)), 3) if player.scores else None,
        "settings": {name: value for name, value in vars(arguments).items() if value is not None},
    }


def main() -> None:
    arguments = parse()
    if torch is None:
        sys.exit("PyTorch is missing: start this with `uv run` as above, or where `import torch` works")
    print(json.dumps(measure(arguments)))


if __name__ == "__main__":
    main()
