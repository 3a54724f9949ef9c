"""Statistics of few runs, as Agarwal et al. 2021 (rliable) ask for them."""

from collections.abc import Sequence

import numpy as np


def interquartile_mean(scores: np.ndarray) -> np.ndarray:
    """The mean of the middle half of the scores: [..., N] → [...]; of three or fewer, of all."""
    cut = scores.shape[-1] // 4
    return np.sort(scores, axis=-1)[..., cut : scores.shape[-1] - cut].mean(-1)


def rank_correlation(these: Sequence[float], those: Sequence[float]) -> float:
    """Spearman's ρ: the correlation of ranks, which equal values share; NaN where one side does not vary."""
    ranks = [_ranks(np.asarray(values, float)) for values in (these, those)]
    one, other = (rank - rank.mean() for rank in ranks)
    spread = np.sqrt((one @ one) * (other @ other))
    return float(one @ other / spread) if spread else np.nan


def _ranks(values: np.ndarray) -> np.ndarray:
    """How many values are smaller, and half of the equal ones, its own among them: [N] → [N]."""
    below, equal = (compared.sum(1) for compared in (values < values[:, None], values == values[:, None]))
    return np.asarray(below + equal / 2)


def stratified_bootstrap(strata: Sequence[Sequence[float]], draws: int = 2000) -> tuple[float, float]:
    """The 95 % interval of the interquartile mean of all scores; runs are drawn again within each stratum, a world.

    A stratum of a single run does not vary.
    """
    rng = np.random.default_rng(0)
    drawn = [np.asarray(runs, float)[rng.integers(len(runs), size=(draws, len(runs)))] for runs in strata]
    low, high = np.percentile(interquartile_mean(np.concatenate(drawn, axis=1)), [2.5, 97.5])
    return float(low), float(high)
