"""The benchmark of growth: its axes, what it makes of a point, and why one may have failed."""

import json

import pytest

from benchmarks import growth
from benchmarks.growth import (
    AXES,
    BASES,
    Growth,
    as_line,
    forget_peak,
    host_peak_mib,
    points,
    preset_value,
    report,
    side_of,
    summary,
    why,
)
from discern.config import differences


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("axis", AXES)
def test_an_axis_changes_its_setting_alone(axis, base):
    found = points(axis, base, (), False)
    assert [value for value, _, _ in found] == sorted({value for value, _, _ in found})
    for value, config, side in found:
        changed = {line.split(":")[0] for line in differences(BASES[base], config)}
        assert changed <= {AXES[axis].setting, "goal_buffer.capacity"}
        assert side == (value if axis == "side" else side_of(base))
    at_preset = [value for value, config, side in found if config == BASES[base] and side == side_of(base)]
    assert at_preset == [preset_value(axis, base)] or (axis == "pool" and not at_preset)


def test_goals_are_as_many_as_asked_for():
    preset = BASES["arena"].relabel.goals
    counts = (1, len(preset), 2 * len(preset))
    found = points("goals", "arena", counts, False)
    assert [config.relabel.goals for _, config, _ in found] == [preset[:1], preset, 2 * preset]


def test_a_point_is_its_repeats_summarised():
    rates = {"acting": [10.0, 30.0, 20.0], "whole": [1.0, 3.0, 2.0], "updates": [100.0, 50.0, 200.0]}
    found = {"rates": rates | {"reference": [50.0, 50.0, 100.0]}, "start_seconds": 3.14, "host_peak_mib": 99.6}
    point = summary(found | {"card_peak_mib": None, "compiling_in_peak": False})
    assert point["update_ms"] == {"least": 5.0, "median": 10.0, "most": 20.0}
    assert point["updates_over_reference"] == {"least": 1.0, "median": 2.0, "most": 2.0}
    assert point["whole_steps_per_second"]["median"] == 2.0
    assert (point["start_seconds"], point["host_peak_mib"], point["card_peak_mib"]) == (3.1, 100, None)
    assert "10.00 ms an update" in as_line("batch", {"value": 8, **point})


def test_what_ran_out_of_memory_is_called_so():
    errors = "Traceback …\njax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.\n"
    assert why(1, errors, 9).startswith("out of memory: jax.errors.JaxRuntimeError")
    assert why(-9, "", 9) == "out of memory: ended with -9"
    assert why(1, "a\nthere is no world 'moon'\n\n", 9) == "there is no world 'moon'"
    assert why(None, "", 9) == "not done after 9 s"


def test_one_point_that_fails_harms_no_other(monkeypatch, tmp_path):
    """A file that is there keeps its other axes, and a point that two axes share is measured once."""
    out, asked = tmp_path / "growth.json", []

    def measured(config, side, wanted):
        asked.append(config.learner.batch)
        if config.learner.batch == 128:
            return {"failed": "out of memory: so many"}
        rates = {name: [1.0] for name in ("acting", "updates", "whole", "reference")}
        peaks = {"host_peak_mib": 1.0, "card_peak_mib": 2.0, "compiling_in_peak": False}
        return {"rates": rates, "start_seconds": 1.0, "machine": {"device": "a card"}, **peaks}

    monkeypatch.setattr(growth, "measured_apart", measured)
    monkeypatch.setattr(growth, "has_accelerator", lambda: False)
    monkeypatch.setattr(growth, "keep_compiled", lambda: None)
    for words in (["--axis", "lstm", "--values", "128"], ["--axis", "batch", "goals", "--commit", "0123456"]):
        monkeypatch.setattr("sys.argv", ["growth", "--out", str(out), *words])
        growth.main()
    made = json.loads(out.read_text())
    assert list(made["axes"]) == ["lstm", "batch", "goals"]
    assert [point["value"] for point in made["axes"]["batch"]["points"]] == [16, 32, 64, 128]
    assert made["axes"]["batch"]["points"][-1] == {"value": 128, "failed": "out of memory: so many"}
    batch, counts = BASES["arena"].learner.batch, len(AXES["goals"].values["arena"])
    of_goals = [batch] * (counts - 1)  # one of them is the preset, which the axis of batches has asked for
    assert asked == [batch, 16, 32, 64, 128, *of_goals]
    assert (made["commit"], made["machine"]) == ("0123456", {"device": "a card"})


def test_its_json_says_how_and_when(tmp_path):
    out = tmp_path / "growth.json"
    made = report(Growth(out=out, note="shared"), "arena", ("side",))
    assert {"what", "command", "commit", "date", "seeds", "machine", "note", "axes"} <= set(made)
    out.write_text(json.dumps(made | {"command": "before", "axes": {"side": {}, "lstm": {}}}))
    again = report(Growth(out=out), "arena", ("side",))
    assert again["command"].startswith("before; python -m benchmarks.growth")
    assert list(again["axes"]) == ["lstm"]
    with pytest.raises(SystemExit, match="is of arena, not of arena/84"):
        report(Growth(out=out), "arena/84", ("side",))


def test_a_peak_is_forgotten_and_taken_anew():
    taken = bytearray(200 * 2**20)
    taken[::4096] = b"x" * len(taken[::4096])  # so that it is there
    peak = host_peak_mib()
    assert peak > 200
    del taken
    assert host_peak_mib() > peak - 10  # which the system knows to some pages
    if forget_peak():  # not every system can
        assert host_peak_mib() < peak - 100
