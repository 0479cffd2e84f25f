"""Finished runs that get more rounds: the longer run, to the bit, or a sentence."""

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import turnout as t
from tests.helpers.commands import config, turnout
from tests.helpers.examples import ALGORITHMS, small
from turnout.optimisers import schedules

PROBLEM = t.Quadratic.random(clients=12, dimension=5, seed=0)
FEDAVG = t.FedAvg(t.Nice(3), lr=0.05)


def extended(algorithm, problem, rounds: tuple[int, int], further=None, **options) -> t.Trace:
    """Play the first number of rounds, then go on to the second; with `further` options then."""
    first = t.run(algorithm, problem, rounds=rounds[0], **options)
    return t.run(algorithm, problem, rounds=rounds[1], go_on=first, **{**options, **(further or {})})


@pytest.mark.tiers(everything=["1-nodes", "4-nodes"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize("every", [1, 4])
def test_rows_and_parameters_are_those_of_the_longer_run(engine, every):
    """Also where the shorter run ends between two rows, and again from the same trace."""
    algorithm, options = t.Scaffold(t.Nice(3), lr=0.02, steps=2), {"every": every, "engine": engine, "seed": 3}
    longer, shorter = (t.run(algorithm, PROBLEM, rounds=rounds, **options) for rounds in (10, 6))
    for _ in range(2):
        other = t.run(algorithm, PROBLEM, rounds=10, go_on=shorter, **options)
        assert np.array_equal(longer.x, other.x) and longer.frame.equals(other.frame)
    further = t.run(algorithm, PROBLEM, rounds=13, go_on=other, **options)
    assert np.array_equal(further.x, t.run(algorithm, PROBLEM, rounds=13, **options).x)


@pytest.mark.tiers(quick=[], slow=["accfeddcd", "icgm", "saber-partial"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_on_nodes(name):
    """The compiled engine is checked by `goes_on_to_the_bit`."""
    algorithm = ALGORITHMS[name].on(3.0)
    longer = t.run(algorithm, small(), rounds=3, engine="nodes")
    other = extended(algorithm, small(), (2, 3), engine="nodes")
    assert all(np.array_equal(longer.columns[column], other.columns[column], equal_nan=True) for column in longer.columns)


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on():
    longer = t.run(FEDAVG, PROBLEM, rounds=12)
    patient = t.EarlyStopping("value", patience=1, min_delta=1e9)
    stopped = t.run(FEDAVG, PROBLEM, rounds=12, callbacks=[patient])
    assert stopped.stopped == 1 and np.array_equal(t.run(FEDAVG, PROBLEM, rounds=12, go_on=stopped).x, longer.x)
    target = t.Target("gradient", 1e6, stop=True)
    with_target = t.run(FEDAVG, PROBLEM, rounds=12, target=target, metrics=("gradient",))
    assert with_target.met is not None and with_target.met < 12
    on = t.run(FEDAVG, PROBLEM, rounds=12, go_on=with_target, target=t.Target("gradient", 1e6), metrics=("gradient",))
    assert on.met is None and np.array_equal(on.x, longer.x)
    with pytest.raises(t.UserError, match="met its target at round .*: go on with stop = False, or another target"):
        t.run(FEDAVG, PROBLEM, rounds=12, go_on=with_target, target=target, metrics=("gradient",))


@pytest.mark.longer
def test_what_depends_on_the_number_of_rounds_does_not_go_on():
    decaying = t.FedAvg(t.Nice(3), lr=0.05, schedule=schedules.Cosine())
    sampler = t.FedAvg(t.Independent(size=3.0, probability=t.KVib()), lr=0.05)
    for algorithm in (decaying, sampler):
        with pytest.raises(
            t.UserError, match="does not go on to 6 with this algorithm.*where it depends on the number of rounds"
        ):
            extended(algorithm, PROBLEM, (4, 6))


@pytest.mark.tiers(longer=["algorithm0-rounds0-further0-the run has 4 rounds already: give more than 3"])
@pytest.mark.parametrize(
    ("algorithm", "rounds", "further", "sentence"),
    [
        (FEDAVG, (4, 3), {}, "the run has 4 rounds already: give more than 3"),
        (FEDAVG, (4, 6), {"seed": 1}, "a run goes on with the same seed, 0, but it is 1"),
        (FEDAVG, (4, 6), {"every": 2}, "the same every, 1, but it is 2"),
        (FEDAVG, (4, 6), {"engine": "nodes"}, "the same engine"),
        (FEDAVG, (4, 6), {"metrics": ("gradient",)}, "the same metrics"),
    ],
)
def test_what_a_run_does_not_go_on_with(algorithm, rounds, further, sentence):
    with pytest.raises(t.UserError, match=sentence):
        extended(algorithm, PROBLEM, rounds, further)


@pytest.mark.longer
def test_other_algorithms_problems_and_traces_are_refused():
    first = t.run(FEDAVG, PROBLEM, rounds=2)
    with pytest.raises(t.UserError, match="of which lr is another number"):
        t.run(t.FedAvg(t.Nice(3), lr=0.1), PROBLEM, rounds=3, go_on=first)
    with pytest.raises(t.UserError, match="of which its parts are others"):
        t.run(t.Scaffold(t.Nice(3), lr=0.1, steps=1), PROBLEM, rounds=3, go_on=first)
    with pytest.raises(t.UserError, match="a run of another shape"):
        t.run(FEDAVG, t.Quadratic.random(clients=12, dimension=6, seed=0), rounds=3, go_on=first)
    swept = t.sweep(FEDAVG, PROBLEM, {"lr": [0.05]}, rounds=2)
    with pytest.raises(t.UserError, match="go_on needs the trace of a run"):
        t.run(FEDAVG, PROBLEM, rounds=3, go_on=swept.traces[0])
    with pytest.warns(t.Caution, match="diverged"):
        lost = t.run(t.FedAvg(t.Full(), lr=10.0, steps=40), PROBLEM, rounds=4)
    with pytest.raises(t.UserError, match="diverged at round .*, so that there is nothing to go on from"):
        t.run(t.FedAvg(t.Full(), lr=10.0, steps=40), PROBLEM, rounds=6, go_on=lost)


@pytest.mark.slow
def test_a_finished_folder_gets_more_rounds(tmp_path):
    """Also one whose run ended at its target, and again after this command was interrupted."""
    run = {"rounds": 6, "every": 4}
    assert turnout("run", config(tmp_path, run=run), "--out", tmp_path / "longer")[0] == 0
    shorter = config(tmp_path, run={**run, "rounds": 3}, target={"metric": "distance", "below": 1e9, "stop": True})
    assert turnout("run", shorter, "--out", tmp_path / "out")[0] == 0
    code, said, _ = turnout("resume", tmp_path / "out")
    assert code == 0 and "is complete: there is nothing to resume; give it more rounds by --rounds N" in said
    assert turnout("resume", tmp_path / "out", "--rounds", 6)[0] == 0
    one, other = (pl.read_parquet(tmp_path / name / "trace.parquet") for name in ("longer", "out"))
    assert one.equals(other) and one["round"].to_list() == [0, 4, 6]
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("longer", "out"))
    assert np.array_equal(one["x"], other["x"])
    code, _, said = turnout("resume", tmp_path / "out", "--rounds", 5)
    assert code != 0 and "the run has 6 rounds already: give more than 5" in said
    (tmp_path / "out" / "checkpoint.safetensors").unlink()
    assert "has no checkpoint.safetensors" in turnout("resume", tmp_path / "out", "--rounds", 9)[2]
