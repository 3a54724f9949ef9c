"""The interquartile mean and its interval, by hand, by scipy, and by what rliable says of the same scores."""

import numpy as np
import pytest

from discern.evaluation.statistics import interquartile_mean, stratified_bootstrap

FIVE = [0.978, 0.962, 0.974, 0.988, 0.950]  # one world, five seeds
WORLDS = [[0.94, 0.97, 0.98, 0.91, 0.96], [0.10, 0.31, 0.22, 0.05, 0.18], [0.55, 0.42, 0.61, 0.48, 0.50]]


@pytest.mark.parametrize(
    ("scores", "middle"),
    [([0.4], 0.4), ([0.0, 1.0], 0.5), ([0.0, 0.3, 0.9], 0.4), ([9, 1, 2, 4], 3.0), ([5, 4, 3, 2, 1, 0, 99, -9], 2.5)],
)
def test_the_mean_of_the_middle_half(scores, middle):
    assert interquartile_mean(np.array(scores, float)) == pytest.approx(middle)


def test_the_interquartile_mean_is_scipys_trimmed_mean():
    from scipy import stats  # a second to import, for each process of the tests

    scores = np.random.default_rng(0).random((13, 5, 11))
    np.testing.assert_allclose(interquartile_mean(scores), stats.trim_mean(scores, 0.25, axis=-1))


@pytest.mark.parametrize(
    ("strata", "middle", "interval"),
    [([FIVE], 0.971333, (0.954000, 0.984667)), (WORLDS, 0.548889, (0.507778, 0.585556))],
)
def test_intervals_are_those_of_rliable(strata, middle, interval):
    """The numbers are of rliable 1.2.0, 50,000 draws; it does not import beside the pandas that is pinned here."""
    assert interquartile_mean(np.concatenate(strata)) == pytest.approx(middle, abs=1e-6)
    assert stratified_bootstrap(strata) == pytest.approx(interval, abs=0.003)
    assert stratified_bootstrap(strata, draws=50_000) == pytest.approx(interval, abs=0.0015)


def test_the_interval_of_one_world_is_scipys():
    from scipy import stats

    scores = np.random.default_rng(3).random(9)
    theirs = stats.bootstrap((scores,), lambda x, axis: stats.trim_mean(x, 0.25, axis=axis), method="percentile", rng=0)
    assert stratified_bootstrap([scores], draws=9999) == pytest.approx(theirs.confidence_interval, abs=0.01)


def test_a_single_run_does_not_vary():
    assert stratified_bootstrap([[0.4]]) == (0.4, 0.4)
    assert stratified_bootstrap([[0.1], [0.5]]) == pytest.approx((0.3, 0.3))
