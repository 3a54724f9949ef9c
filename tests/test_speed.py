"""The benchmark suite: spreads, and what counts as slower."""

from benchmarks.speed import PARTS, compare, spread


def report(updates: tuple[float, float, float]) -> dict:
    steady = {"over_reference": spread([2.0])}
    return {"worlds": {"arena": dict.fromkeys(PARTS, steady) | {"updates": {"over_reference": spread(updates)}}}}


def test_a_spread_is_the_least_the_median_and_the_most():
    assert spread([3.0, 1.0, 2.0]) == {"least": 1.0, "median": 2.0, "most": 3.0}


def test_a_part_is_slower_when_no_repeat_was_fast_enough():
    before = report((1.0, 1.0, 1.0))
    lines, slower = compare(report((0.5, 0.6, 0.69)), before, 0.3)
    assert len(lines) == len(PARTS)
    assert slower == ["                     arena          updates   0.60 times as fast"]
    assert compare(report((0.5, 0.6, 0.71)), before, 0.3)[1] == []  # one repeat was: a busy moment, not slow code
    assert compare(report((2.0, 2.0, 2.0)), before, 0.3)[1] == []


def test_worlds_of_one_side_alone_are_not_compared():
    other = {"worlds": {"arena/84": report((1.0, 1.0, 1.0))["worlds"]["arena"]}}
    assert compare(report((1.0, 1.0, 1.0)), other, 0.3) == ([], [])
