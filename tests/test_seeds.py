"""Several seeds of one run, and runs side by side."""

import json
import signal

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from discern import cli
from discern.config import replace
from discern.evaluation.compare import as_table, compare, summary
from discern.evaluation.final import is_finished, load_final
from discern.evaluation.statistics import interquartile_mean, stratified_bootstrap
from discern.storage.run_folder import RunFolder
from discern.training import loop, seeds
from discern.training.actors import LocalActors
from discern.training.seeds import train_seeds
from discern.types import StoppedError, UserError

STEPS = 500


@pytest.fixture(scope="module")
def console():
    return Console(quiet=True)


@pytest.fixture
def config(tiny):
    return replace(tiny, {"steps": STEPS, "seed": 3, "evaluate_every": 200})


def finished(path, config, success, seed=0, goal_set="even:test", steps=(100, 200)):
    """A run folder as a finished run leaves it, with what it achieved made up."""
    folder = RunFolder(path)
    folder.path.mkdir(parents=True)
    folder.keep(replace(config, {"seed": seed}))
    rows = [
        {"steps": at, "updates": at // 10, "seconds": at * 0.6, "success": success * at / steps[-1], "random": 0.05}
        for at in steps
    ]
    folder.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    images = np.zeros((2, 4, 4, 3), np.uint8)
    shares = {"success": success, "at_some_step": min(1.0, success + 0.1), "random": 0.04, "goal_set": goal_set}
    np.savez(path / "final.npz", **shares, goals=images, achieved=images, average=images, by_goal=np.zeros(2))
    return path


def test_runs_in_one_process_share_their_programs(config):
    """Those of another seed and budget, and not those that learn from larger batches."""

    def programs(**changes):
        made = loop.Loop(LocalActors(replace(config, changes)))
        return made.learner, made.update, made.actors.draw, made.actors.collector.programs

    ours, theirs = programs(seed=1), programs(seed=2, steps=9, evaluate_every=None)
    assert all(mine is others for mine, others in zip(ours, theirs, strict=True))
    larger = programs(**{"learner.batch": 8})
    assert not any(mine is others for mine, others in zip(ours, larger, strict=True))


def test_seeds_run_one_after_the_other_and_only_once(config, tmp_path, monkeypatch, capsys):
    """Three seeds of which the second is stopped; asked again, it goes on, and the first is left alone."""
    root, started, train, resume = tmp_path / "root", [], loop.train, loop.resume

    def stopped_once(one, *where):
        started.append(("train", one.seed))
        if started == [("train", 3), ("train", 4)]:
            train(replace(one, {"steps": 300}), *where)  # what a stop leaves: a checkpoint, and no last score
            (root / "seed-4" / "final.npz").unlink()
            RunFolder(root / "seed-4").keep(one)
            raise StoppedError("stopped", signal.SIGINT)
        return train(one, *where)

    def resumed(run, *where):
        started.append(("resume", run.name))
        return resume(run, *where)

    monkeypatch.setattr(loop, "train", stopped_once)
    monkeypatch.setattr(loop, "resume", resumed)
    with pytest.raises(StoppedError, match=f"go on with the same command and --run {root}"):
        train_seeds(config, 3, root)
    assert started == [("train", 3), ("train", 4)]
    capsys.readouterr()
    assert train_seeds(config, 3, root) == root
    assert started[2:] == [("resume", "seed-4"), ("train", 5)]
    assert [RunFolder(root / f"seed-{n}").config().seed for n in (3, 4, 5)] == [3, 4, 5]
    assert all(RunFolder(root / f"seed-{n}").metrics()[-1]["steps"] >= STEPS for n in (3, 4, 5))
    scores = [load_final(root / f"seed-{n}").success for n in (3, 4, 5)]
    (row,) = compare([root])
    assert (row["by_seed"], row["success"]) == (scores, pytest.approx(np.mean(scores)))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-4:]] == ["seed-3", "seed-4", "seed-5", "all"]
    assert f"{np.mean(scores):.1%}" in lines[-1]


def test_folders_of_something_else_are_refused(config, tmp_path, console, monkeypatch):
    finished(tmp_path / "root" / "seed-4", replace(config, {"learner.batch": 8}), 0.5, seed=4)
    monkeypatch.setattr(seeds, "ensure", lambda *_: pytest.fail("a seed was run"))
    with pytest.raises(UserError, match=r"seed-4 holds a run with another config \(learner.batch: 4 ≠ 8\)"):
        train_seeds(config, 2, tmp_path / "root", console)
    with pytest.raises(UserError, match="seed-4 is a run: choose another folder for several seeds"):
        train_seeds(config, 2, tmp_path / "root" / "seed-4", console)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write"):
        train_seeds(config, 2, tmp_path / "file", console)


def test_without_a_folder_the_name_says_which_seeds(config, tmp_path, console, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(seeds, "ensure", lambda one, folder, *_: finished(folder, one, 0.5, one.seed))
    root = train_seeds(config, 2, console=console)
    assert root.parent.name == "runs" and root.name.endswith("-seed3-4")
    assert is_finished(root / "seed-3") and is_finished(root / "seed-4")


def test_the_command_line_asks_for_seeds(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(seeds, "train_seeds", lambda *words, **where: asked.append((words, where)))
    wanted = cli.read(["train", "arena", "--seed", "7", "--seeds", "4", "--run", str(tmp_path)])
    cli.HANDLERS[cli.Train](wanted)
    assert asked == [((wanted.settings, 4, tmp_path), {"cluster": "", "actors": None, "wandb": None})]
    assert asked[0][0][0].seed == 7


def test_runs_that_differ_in_their_seed_alone_are_one(config, tmp_path, capsys, monkeypatch):
    scores = [0.5, 0.6, 0.7, 0.9, 0.1]
    for seed, score in enumerate(scores):
        finished(tmp_path / "five" / f"seed-{seed}", config, score, seed)
    finished(tmp_path / "alone", replace(config, {"reward.kind": "pixels", "learner.batch": 8}), 0.25, seed=9)
    RunFolder(tmp_path / "begun").path.mkdir()
    RunFolder(tmp_path / "begun").keep(replace(config, {"env": "arena/two"}))
    runs = [tmp_path / "five", tmp_path / "five" / "seed-2", tmp_path / "alone", tmp_path / "begun"]
    five, alone, begun = compare(runs, tmp_path / "c.png")
    assert (five["runs"], five["seeds"], five["goals"]) == ("five", [0, 1, 2, 3, 4], "even:test")
    assert five["success"] == pytest.approx(0.6)  # of 0.5, 0.6 and 0.7
    assert five["interval"] == stratified_bootstrap([scores])
    assert five["at_some_step"] == pytest.approx(0.7)
    assert (five["steps"], five["updates"], five["minutes"]) == (200, 20, 2.0)
    assert (alone["success"], alone["interval"], alone["random"]) == (0.25, None, 0.04)
    assert alone["differs"] == ["reward.kind: pixels ≠ discern", "learner.batch: 8 ≠ 4"]
    assert (begun["success"], begun["steps"], begun["finished"]) == (None, None, 0)
    assert np.asarray(Image.open(tmp_path / "c.png")).std() > 1
    words = (tmp_path / "c.svg").read_text()
    assert all(word in words for word in ("arena", "arena/two", "five", "alone", "begun", "tune half"))
    low, high = five["interval"]
    table = as_table([five, alone, begun])
    assert f"60.0% ({100 * low:.1f} to {100 * high:.1f})" in table
    assert "alone against five: reward.kind: pixels ≠ discern; learner.batch: 8 ≠ 4" in table
    assert "0 of 1" in table
    monkeypatch.chdir(tmp_path)
    cli.HANDLERS[cli.Compare](cli.read(["compare", "five", "alone", "--json"]))
    assert json.loads(capsys.readouterr().out)[0]["by_seed"] == scores
    assert (tmp_path / "compare.png").exists()


def test_scores_on_different_goals_are_not_mixed(config, tmp_path):
    runs = [
        finished(tmp_path / name, config, 0.5, seed, goals)
        for seed, (name, goals) in enumerate([("old", "tune"), ("new", "even:test")])
    ]
    with pytest.raises(UserError, match="the runs of old were scored on different goals"):
        compare(runs)
    assert [row["goals"] for row in (summary("a", runs[:1]), summary("b", runs[1:]))] == ["tune", "even:test"]


def test_the_picture_says_what_could_be_misread(config, tmp_path, monkeypatch):
    """How many seeds, and how far; what is drawn of a world without a success rate; nothing where nothing is known."""
    from discern.evaluation import comparisons

    figures = []
    monkeypatch.setattr(comparisons, "_save", lambda figure, _: figures.append(figure))
    for seed in range(3):
        finished(tmp_path / "three" / f"seed-{seed}", config, 0.5, seed)
    (tmp_path / "three" / "seed-2" / "final.npz").unlink()
    finished(tmp_path / "one", replace(config, {"learner.batch": 8}), 0.25, seed=9)
    for name, changes in {"begun": {"learner.batch": 6}, "elsewhere": {"env": "arena/two"}}.items():
        folder = RunFolder(tmp_path / name)
        folder.path.mkdir()
        folder.keep(replace(config, changes))
    lines = [{"steps": steps, "updates": 1, "seconds": 1.0, "teacher_accuracy": steps / 4e6} for steps in (1e6, 2e6)]
    folder = RunFolder(tmp_path / "unscored")
    folder.path.mkdir()
    folder.keep(replace(config, {"env": "atari/tetris", "evaluate_every": 9}))
    folder.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in (*lines, {**lines[-1], "steps": 3e6})))
    rows = compare([tmp_path / name for name in ("three", "one", "begun", "elsewhere", "unscored")], tmp_path / "c.png")
    scored, nothing, unscored = figures[0].axes
    assert [text.get_text() for text in scored.get_legend().get_texts()] == [
        "three (3 seeds, 1 unfinished)",
        "one (1 seed)",
        "begun (1 seed, unfinished): nothing yet",
        "random policy",
    ]
    assert "95 %" in scored.get_legend().get_title().get_text()
    assert scored.get_ylabel() == "held-out goals reached (tune half), %"
    assert scored.lines[-1].get_ydata()[0] == pytest.approx(4)  # the random policy's
    assert nothing.get_xticks().tolist() == []
    assert unscored.get_ylabel() == "teacher accuracy (no success rate), %"
    np.testing.assert_allclose(unscored.lines[0].get_ydata(), [25, 50, 50])
    assert unscored.xaxis.get_major_formatter()(2e6) == "2 M"
    assert rows[4]["teacher_accuracy"] == 0.5 and rows[4]["success"] is None
    assert "50.0%" in as_table(rows).splitlines()[5]


def test_bands_are_intervals_and_not_the_spread(config, tmp_path, monkeypatch):
    """Five curves: the band at the last step ends at the interval of the interquartile mean."""
    from discern.evaluation import comparisons

    scores, drawn = [0.5, 0.6, 0.7, 0.9, 0.1], []
    for seed, score in enumerate(scores):
        finished(tmp_path / "five" / f"seed-{seed}", config, score, seed)
    monkeypatch.setattr(comparisons, "_save", lambda figure, _: drawn.append(figure))
    compare([tmp_path / "five"], tmp_path / "c.png")
    (panel,) = drawn[0].axes
    np.testing.assert_allclose(panel.lines[0].get_ydata()[-1], 100 * interquartile_mean(np.array(scores)))
    band = panel.collections[0].get_paths()[0].vertices
    at_end = band[band[:, 0] == 200, 1]
    low, high = stratified_bootstrap([scores])
    np.testing.assert_allclose((at_end.min(), at_end.max()), (100 * low, 100 * high))
