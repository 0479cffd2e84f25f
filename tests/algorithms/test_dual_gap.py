"""The metric dual_gap: G(y) - G* at the dual variables that the runs have, and what the theorems say of it."""

import numpy as np
import pytest

import turnout as t
from tests.algorithms import test_accfeddcd, test_feddcd
from tests.helpers.commands import config
from tests.helpers.duals import ALPHA, BETA, CLIENTS, EQUAL, SHARES, SIZE, Exact, play, quadratic
from turnout.experiment.config import read
from turnout.experiment.run import start
from turnout.report.downsample import points
from turnout.report.loaded_run import Result
from turnout.runs.sweep import cells_of
from turnout.theory import feddcd

METHODS = {
    "feddcd": (t.FedDcd, test_feddcd.virtual, SHARES),
    "accfeddcd": (t.AccFedDcd, test_accfeddcd.virtual, EQUAL),
}


def gap(problem, shares, y):
    """sum_i lambda_i f_i*(y_i) - min f, f_i*(y) = (b_i + y)^T A_i^-1 (b_i + y) / 2."""
    matrices, vectors = problem.rows
    conjugates = np.einsum("ni,ni->n", vectors + y, np.linalg.solve(matrices, (vectors + y)[..., None])[..., 0]) / 2
    hessian, linear = (np.tensordot(shares, part, 1) for part in problem.rows)
    return shares @ conjugates - linear @ np.linalg.solve(hessian, linear) / 2


@pytest.mark.tiers(quick=[], slow=["accfeddcd-lazy"])
@pytest.mark.parametrize("delivery", ["lazy", "eager"])
@pytest.mark.parametrize("name", METHODS)
def test_the_dual_gap_is_that_of_the_dual_variables(name, delivery):
    """With a fifth of the replies lost, so that clients are owed steps and miss rounds."""
    make, virtual, shares = METHODS[name]
    problem = quadratic(shares)
    session = play(make(t.Nice(SIZE), Exact(), delivery=delivery), problem, 7, loss=0.2, metrics=("dual_gap",))
    found = session.trace.columns["dual_gap"]
    assert found[0] == pytest.approx(gap(problem, shares, np.zeros((CLIENTS, 3))), rel=1e-9)
    assert found[-1] == pytest.approx(gap(problem, shares, virtual(session)[:, 0]), rel=1e-7)
    assert 0 < found[-1] < found[0]


@pytest.mark.tiers(quick=[], slow=["feddcd"])
@pytest.mark.parametrize("name", METHODS)
def test_runs_stay_below_the_bounds_on_the_dual_gap(name):
    """The mean of 40 seeds, by equations (3) and (10)."""
    r = (SIZE - 1) / (CLIENTS - 1)
    rate, constant = feddcd.feddcd_rate(r, ALPHA, BETA), 1.0
    if name == "accfeddcd":
        rate, constant = feddcd.accfeddcd_rate(r, ALPHA, BETA), feddcd.accfeddcd_dual_constant(r, ALPHA, BETA)
    method = METHODS[name][0](t.Nice(SIZE), Exact())
    traces = play(method, quadratic(), 60, every=6, cells=cells_of({}, range(40)), metrics=("dual_gap",)).traces
    gaps = np.mean([trace.columns["dual_gap"] for trace in traces], axis=0)
    bound = feddcd.dual_gap(traces[0].columns["round"], rate, gaps[0], constant)
    assert np.all(gaps <= bound * (1 + 1e-9)) and gaps[-1] > 0
    assert np.std([trace.columns["dual_gap"][1] for trace in traces]) > 0


@pytest.mark.slow
def test_inexact_runs_stay_below_equation_8():
    r = (SIZE - 1) / (CLIENTS - 1)
    method = t.FedDcd(t.Nice(SIZE), Exact(), lr=feddcd.INEXACT_LR, delta=feddcd.inexactness(r, ALPHA, BETA))
    traces = play(method, quadratic(), 40, every=8, cells=cells_of({}, range(20)), metrics=("dual_gap",)).traces
    gaps = np.mean([trace.columns["dual_gap"] for trace in traces], axis=0)
    bound = feddcd.dual_gap(traces[0].columns["round"], feddcd.inexact_rate(r, ALPHA, BETA), gaps[0])
    assert np.all(0 < gaps) and np.all(gaps <= bound * (1 + 1e-9))


@pytest.mark.slow
def test_reports_draw_the_bound_beside_the_dual_gap(tmp_path):
    """Also of clients without a closed form, whose conjugates a solver finds."""
    tables = {
        "algorithm": {"kind": "feddcd", "solver": "newton-cg"},
        "run": {"rounds": 6, "metrics": ["dual_gap"]},
    }
    start(read(config(tmp_path, **tables)), tmp_path / "out", None, lambda session: None, "turnout run")
    result = Result.read(tmp_path / "out")
    bound, measured = result.summary["theory"]["bound"], result.trace["dual_gap"].to_numpy()
    np.testing.assert_allclose(result.dual_bound, bound["rate"] ** np.arange(7) * measured[0])
    assert np.all(np.diff(measured) < 0) and measured[-1] > 0
    drawn = points(result, "dual_gap", result.prices, log=True)
    np.testing.assert_allclose([row["bound"] for row in drawn.rows], result.dual_bound, rtol=1e-6)


@pytest.mark.parametrize(
    ("algorithm", "engine", "words"),
    [(t.MbGd(t.Nice(2), lr=0.1), "compiled", "not MbGd"), (t.FedDcd(t.Nice(2), Exact()), "nodes", "engine = 'compiled'")],
)
def test_where_there_is_no_dual_gap_one_sentence_says_so(algorithm, engine, words):
    with pytest.raises(t.UserError, match=words):
        t.run(algorithm, quadratic(), rounds=1, metrics=("dual_gap",), engine=engine)
