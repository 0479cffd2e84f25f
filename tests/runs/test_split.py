"""Cells of a sweep that go on by themselves."""

import numpy as np
import pytest

import turnout as t
from turnout.runs.session import Session
from turnout.runs.sweep import Cell


@pytest.mark.tiers(quick=[], slow=["names2"])
@pytest.mark.parametrize("names", [("lr",), ("lr", "steps"), ()])
def test_cells_that_go_on_by_themselves_are_the_runs(names):
    problem, target = t.Quadratic.random(12, 5, seed=1), t.Target("gradient", 0.5, stop=True)
    values = {"lr": (0.05, 0.2), "steps": (2, 3)}
    cells = [Cell({name: values[name][k] for name in names}, seed) for k in (0, 1) for seed in (3, 4)]
    whole = Session(t.FedAvg(t.Nice(4), lr=0.1, steps=2), problem, rounds=12, target=target, cells=cells)
    parts = whole.split()
    # One after another, in steps of different lengths.
    for rows, part in zip((1, 2, 5, 40), reversed(parts), strict=True):
        while not part.over:
            part.step(rows)
    for cell, part in zip(cells, parts, strict=True):
        algorithm = t.FedAvg(t.Nice(4), **{"lr": 0.1, "steps": 2, **cell.settings})
        alone = t.run(algorithm, problem, rounds=12, target=target, seed=cell.seed)
        assert part.trace.frame.drop("value", "gradient").equals(alone.frame.drop("value", "gradient"))
        np.testing.assert_allclose(part.trace.frame["gradient"], alone.frame["gradient"], rtol=1e-12)
        assert part.trace.met == alone.met


@pytest.mark.longer
def test_a_program_that_compiles_quickly_plays_the_same_runs():
    cells = [Cell({"lr": lr}, seed) for lr in (0.05, 0.2) for seed in (3, 4)]
    slow, quick = (
        Session(t.FedAvg(t.Nice(4), lr=0.1, steps=2), t.Quadratic.random(12, 5, seed=1), rounds=12, cells=cells, quick=quick)
        for quick in (False, True)
    )
    for one, other in zip(slow.run().traces, quick.run().traces, strict=True):
        assert one.frame.drop("value").equals(other.frame.drop("value"))
        np.testing.assert_allclose(one.frame["value"], other.frame["value"], rtol=1e-6)


def test_a_run_without_cells_cannot_be_split():
    with pytest.raises(t.UserError, match="nothing to split"):
        Session(t.FedAvg(t.Nice(4), lr=0.1), t.Quadratic.random(12, 5), rounds=3).split()
