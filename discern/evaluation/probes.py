"""What an agent lacks: linear probes of what it sees, pairs of frames to try its reward on, and a verdict."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from discern.envs.base import Dimension
from discern.evaluation.achievement import Score, apart

PENALTIES = 10.0 ** np.arange(-5, 2)  # of a ridge, for each row and unit of variance
ALIKE, NEAR, FAR = 0.05, 0.1, 0.2  # of a dimension's range
COMPARED = 2000  # frames whose pairs are looked at
PAIRS = 300  # of a kind

MASTERED = 0.95  # success from which nothing is missing
SEEN = 0.5  # the least R² from h that counts as seeing a dimension
TOLD = 0.85  # the reward tells a dimension if what is left of it, with that dimension off, is less than this
FEWEST_PAIRS = 20  # that a mean reward is trusted from
PASSED = 0.2  # timing: at some step at least this much above at the end, and above the random policy


class Reward(NamedTuple):
    """The learned reward of pairs of frames of one kind."""

    mean: float | None  # None where there is no such pair
    pairs: int


class Verdict(NamedTuple):
    missing: str  # nothing, sight, reward, timing or control
    dimension: str | None
    because: str


def linear_probe(
    features_train: np.ndarray, targets_train: np.ndarray, features_test: np.ndarray, targets_test: np.ndarray
) -> np.ndarray:
    """R² of a ridge regression: features [M, F] and targets [M, P] to fit, [N, F] and [N, P] to test → float64 [P].

    The penalty is the one that does best on the last quarter of the M rows, fitted to the others: so rows of one
    trajectory should lie together. A target that does not vary has no R², NaN.
    """
    mean, spread = features_train.mean(0), features_train.std(0)
    scale = np.where(spread > 1e-6, spread, 1.0)
    inputs, tests = ((x.astype(np.float64) - mean) / scale for x in (features_train, features_test))
    part = 3 * len(inputs) // 4
    tried = _ridge(inputs[:part], targets_train[:part], inputs[part:])
    errors = np.square(tried - targets_train[part:]).mean(1)  # [penalties, P]
    predicted = _ridge(inputs, targets_train, tests)[errors.argmin(0), :, np.arange(targets_train.shape[1])].T
    variance = targets_test.var(0)
    error = np.square(predicted - targets_test).mean(0)
    return np.where(variance > 1e-9, 1 - error / np.maximum(variance, 1e-9), np.nan)


def _ridge(inputs: np.ndarray, targets: np.ndarray, tests: np.ndarray) -> np.ndarray:
    """Predictions for the tests under every penalty: [M, F], [M, P], [N, F] → [penalties, N, P]."""
    mean = targets.mean(0)
    strengths, axes = np.linalg.eigh(inputs.T @ inputs / len(inputs))
    along = axes.T @ (inputs.T @ (targets - mean)) / len(inputs)
    weights = along / (np.maximum(strengths, 0)[:, None] + PENALTIES[:, None, None])
    return (tests @ axes) @ weights + mean


def sight(
    features: np.ndarray, measures: np.ndarray, is_train: np.ndarray, dimensions: tuple[Dimension, ...], cycles: int = 1
) -> dict[str, float]:
    """How well each dimension can be read from features [M, F]: R² where `is_train` [M] does not hold.

    A dimension that wraps is read as sine and cosine, of `cycles` cycles in its range, and its R² is that of both.
    """
    columns = [as_targets(measures[:, i], dimension, cycles) for i, dimension in enumerate(dimensions)]
    targets = np.concatenate(columns, axis=1)
    r2 = linear_probe(features[is_train], targets[is_train], features[~is_train], targets[~is_train])
    weights = np.where(np.isfinite(r2), targets[~is_train].var(0), 0.0)
    ends = np.cumsum([column.shape[1] for column in columns])[:-1]
    explained, whole = (np.split(part, ends) for part in (np.nan_to_num(r2) * weights, weights))
    return {
        dimension.name: float(ours.sum() / all_.sum()) if all_.any() else float("nan")
        for dimension, ours, all_ in zip(dimensions, explained, whole, strict=True)
    }


def as_targets(values: np.ndarray, dimension: Dimension, cycles: int = 1) -> np.ndarray:
    """What a probe predicts of a dimension: [M] → [M, 1], or [M, 2] where it wraps."""
    share = (values.astype(np.float64) - dimension.low) / (dimension.high - dimension.low)
    if dimension.wraps:
        angle = 2 * np.pi * cycles * share
        return np.stack([np.sin(angle), np.cos(angle)], axis=1)
    return np.clip(share, 0.0, 1.0)[:, None]


def pairs_of_frames(
    measures: np.ndarray,
    trajectory: np.ndarray,
    moment: np.ndarray,
    dimensions: tuple[Dimension, ...],
    horizon: int,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Pairs of frames of different trajectories, int [P, 2] of each kind, from measures [M, D] and int [M] twice.

    match: all dimensions; match_at_other_moments: of these, at least a quarter of T apart; off:NAME: that dimension is
    far, the others are near; everything_off: all are far.
    """
    chosen = rng.permutation(len(measures))[:COMPARED]
    first, second = np.triu_indices(len(chosen), k=1)
    first, second = chosen[first], chosen[second]
    others = trajectory[first] != trajectory[second]
    first, second = first[others], second[others]
    distance = np.stack(
        [apart(measures[first, i, None], measures[second, i, None], (d,))[:, 0] for i, d in enumerate(dimensions)]
    ).astype(np.float32)
    near, far = distance <= NEAR, distance > FAR
    kinds = {"match": (distance <= ALIKE).all(0)}
    kinds["match_at_other_moments"] = kinds["match"] & (np.abs(moment[first] - moment[second]) >= horizon / 4)
    for i, dimension in enumerate(dimensions):
        kinds[f"off:{dimension.name}"] = far[i] & np.delete(near, i, axis=0).all(0)
    kinds["everything_off"] = far.all(0)
    found = {}
    for kind, holds in kinds.items():
        places = rng.permutation(np.flatnonzero(holds))[:PAIRS]
        found[kind] = np.stack([first[places], second[places]], axis=1)
    return found


def left_of_reward(rewards: Mapping[str, Reward], lowest: float) -> dict[str, float]:
    """What is left of the reward when one dimension is off, as a share of what matching pairs have above the lowest:
    0 … 1, of the dimensions that enough pairs tell of."""
    trusted = {
        kind: reward.mean
        for kind, reward in rewards.items()
        if reward.mean is not None and reward.pairs >= FEWEST_PAIRS
    }
    if "match" not in trusted:
        return {}
    above = max(trusted["match"] - lowest, 1e-6)
    left = {kind: float(np.clip((mean - lowest) / above, 0.0, 1.0)) for kind, mean in trusted.items()}
    return {kind.removeprefix("off:"): share for kind, share in left.items() if kind.startswith("off:")}


def verdict(
    score: Score,
    random: Score,
    seen: Mapping[str, float],
    left: Mapping[str, float],
    seen_in_halves: Mapping[str, float] | None = None,
) -> Verdict:
    """What is missing first: nothing, sight, reward, timing or control, by the thresholds above.

    `seen` and `seen_in_halves` are what `sight` says of h, the latter with two cycles.
    """
    success, once, by_chance = (share or 0.0 for share in (score.success, score.at_some_step, random.at_some_step))
    worst = min(score.per_dimension, key=lambda name: score.per_dimension[name])
    if success >= MASTERED:
        return Verdict("nothing", None, f"{success:.0%} of goals are reached at the end")
    blind = min(seen, key=lambda name: np.nan_to_num(seen[name], nan=1.0))
    if seen[blind] < SEEN:
        because = f"{blind} cannot be read from h, R² {seen[blind]:.2f}"
        halves = (seen_in_halves or {}).get(blind, 0.0)
        if halves >= SEEN:
            because += f", but modulo half its range it can, {halves:.2f}: the picture may look the same half a turn on"
        return Verdict("sight", blind, because)
    untold = max(left, key=lambda name: left[name]) if left else None
    if untold is not None and left[untold] > TOLD:
        return Verdict("reward", untold, f"with {untold} off, {left[untold]:.0%} of a matching pair's reward is left")
    if once - max(success, by_chance) >= PASSED:
        at_end = f"{success:.0%} at the end, {worst} alone {score.per_dimension[worst]:.0%}"
        return Verdict("timing", worst, f"{once:.0%} of goals are reached at some step, {at_end}")
    told = "is seen and rewarded, and" if worst in left else "is"  # too few pairs say nothing of the reward
    return Verdict("control", worst, f"{worst} {told} right at the end in {score.per_dimension[worst]:.0%}")
