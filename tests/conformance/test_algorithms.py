"""What every algorithm owes: the checks of `turnout.testing` on each example, its ledger by hand, and rates of theorems."""

from dataclasses import replace
from functools import lru_cache
from itertools import product

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.centred import centred
from tests.helpers.examples import ALGORITHMS, ASYNCHRONOUS, PERSONAL_LEAVES, PROBLEMS, logistic, small
from tests.helpers.gradients import gradient
from tests.helpers.hand_count import COHORT, expected_totals
from turnout.core.seeds import Seeds
from turnout.runs.session import Session
from turnout.testing.algorithms import CHECKS, case, nobody, states_keep_their_types

every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


def close(a, b, tolerance=1e-11):
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


@lru_cache(1)
def case_of(name):
    """Return one case, which all checks share: they follow one another, so that nothing is compiled twice."""
    if name in PERSONAL_LEAVES:
        return case(PERSONAL_LEAVES[name].on(3.0), centred())
    return case(ASYNCHRONOUS[name] if name in ASYNCHRONOUS else ALGORITHMS[name].on(3.0), small())


ONE_MODEL = ("states_keep_their_types", "sweeps_cell_is_the_single_run")
"""Checks of sessions without groups, and of sweeps of several seeds, which personal leaves do not go with."""


@pytest.mark.tiers(
    quick=[
        "scaffold-ledger_counts_what_nodes_send",
        "scaffold-resumes_to_the_bit",
        "scaffold-goes_on_to_the_bit",
        "sppm-engines_agree",
        "sppm-ledger_counts_what_nodes_send",
        "sppm-resumes_to_the_bit",
        "sppm-goes_on_to_the_bit",
    ],
    longer=["scaffold-compiles_once", "sppm-parameters_stay_finite", "sppm-compiles_once", "sppm-empty_cohort_changes_nothing"],
    slow=[
        "accfeddcd-engines_agree",
        "agnostic-fl-engines_agree",
        "apfl-engines_agree",
        "ef21-engines_agree",
        "feddcd-engines_agree",
        "feddcd-lost_replies_are_mended",
        "fednl-pp-engines_agree",
        "gradskip-engines_agree",
        "icgm-engines_agree",
        "icgm-resumes_to_the_bit",
        "saber-partial-engines_agree",
        "scafflix-engines_agree",
        "svrp-engines_agree",
        "tamuna-engines_agree",
        "fedbuff-engines_agree",
        "mifa-engines_agree",
        "mifa-lost_replies_are_mended",
        "fedper-engines_agree",
    ],
)
@pytest.mark.parametrize(
    ("name", "check"),
    [
        *((name, check) for name in (*ALGORITHMS, *ASYNCHRONOUS) for check in CHECKS if check != "states_keep_their_types"),
        *((name, check) for name in PERSONAL_LEAVES for check in CHECKS if check not in ONE_MODEL),
    ],
)
@pytest.mark.filterwarnings("ignore:a client takes part")
def test_conformance(name, check):
    CHECKS[check](case_of(name))


ASKING_EVERYONE = {
    "catalyzed-svrp",
    "fedpage",
    "fedred",
    "gd",
    "gradskip",
    "gradskip-plus",
    "icgm",
    "l2gd",
    "locodl",
    "marina",
    "proxskip-vr",
    "saber-full",
    "scafflix",
    "scaffnew",
    "shed",
    "svrp",
}
"""Algorithms whose rounds ask clients that their sampler does not draw."""


ANY_SIZE = [name for name, example in ALGORITHMS.items() if example.any_size]


@pytest.mark.tiers(
    quick=["fedavg"],
    longer=["fedred", "gd", "locodl", "scaffnew", "sppm"],
    slow=[
        "catalyzed-svrp",
        "fedpage",
        "gradskip",
        "gradskip-plus",
        "icgm",
        "l2gd",
        "marina",
        "saber-full",
        "scafflix",
        "proxskip-vr",
        "shed",
        "svrp",
    ],
)
@pytest.mark.parametrize("name", ANY_SIZE)
def test_who_is_asked_when_nobody_is_drawn(name):
    """`empty_cohort_changes_nothing` is about all other algorithms."""
    trace = t.run(nobody(ALGORITHMS[name].make(t.Nice(3))), small(), rounds=2, engine="nodes")
    contacts = trace.frame["contacts"]
    assert (contacts[0] < contacts[-1]) == (name in ASKING_EVERYONE)


@pytest.mark.tiers(
    quick=["mime", "scaffold", "sppm"], longer=["agnostic-fl", "fednova", "fedvarp", "svrp"], slow=["accfeddcd", "icgm"]
)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_states_keep_their_types_on_nested_parameters(name):
    states_keep_their_types(case(ALGORITHMS[name].make(t.Nice(3)), PROBLEMS["network"]()))


@pytest.mark.tiers(
    quick=["sppm"], longer=["fedavg", "feddcd", "fedlin", "point-saga", "s-dane"], slow=["accfeddcd", "ef21", "saber-partial"]
)
@pytest.mark.parametrize("name", [name for name, example in ALGORITHMS.items() if example.round is not None])
def test_the_ledger_is_a_hand_count(name):
    example = ALGORITHMS[name]
    totals = t.run(example.make(t.Nice(COHORT)), small(), rounds=3, engine="nodes").ledger.totals()
    expected = expected_totals(example.start, example.round, 3, small())
    assert {event: totals[event] for event in expected} == expected


@pytest.mark.tiers(quick=[], longer=["fedbn", "fedper", "fedrep"])
@pytest.mark.filterwarnings("ignore:a client takes part")
@pytest.mark.parametrize("name", PERSONAL_LEAVES)
def test_the_ledger_counts_the_leaves_that_are_shared(name):
    """Three weights, and three running means where these are not personal."""
    example, problem = PERSONAL_LEAVES[name], centred()
    totals = t.run(example.make(t.Nice(COHORT)), problem, rounds=3, metrics=("value",), engine="nodes").ledger.totals()
    numbers = 3 if name == "fedbn" else 6
    assert totals["bytes_down"] == totals["bytes_up"] == 3 * COHORT * 8 * numbers
    assert totals["queries_total"] == 3 * COHORT * example.round[0].queries
    assert totals["contacts"] == totals["aggregated"] == 3 * COHORT


ROWS = {
    "fedavg-epochs": lambda s: t.FedAvg(s, lr=0.05, batch=3, epochs=2),
    "scaffold": ALGORITHMS["scaffold"].make,
    "feddcd": ALGORITHMS["feddcd"].make,
    "sppm-bfgs": lambda s: t.Sppm(s, t.solvers.Bfgs(smoothness=20.0), gamma=0.5, inner=3),
}
"""Algorithms for problems with many rows: passes over batches, states of clients, messages for each, flat parameters."""


@pytest.mark.tiers(quick=[], slow=["fedavg-epochs-logistic", "scaffold-network", "feddcd-logistic"])
@pytest.mark.parametrize("problem", ["logistic", "network"])
@pytest.mark.parametrize("name", ROWS)
def test_nodes_give_the_compiled_run_on_tiles_and_nested_parameters(name, problem):
    CHECKS["engines_agree"](case(ROWS[name](t.Independent(size=3.0)), PROBLEMS[problem]()))


@pytest.mark.tiers(quick=[], slow=["feddcd", "sppm-bfgs"])
@pytest.mark.parametrize("name", ROWS)
def test_a_cohort_computed_two_clients_at_a_time_changes_nothing(name):
    session = Session(ROWS[name](t.Nice(5)), logistic(), seeds=Seeds.of(0), rounds=3)
    whole = t.run(ROWS[name](t.Nice(5)), logistic(), rounds=3)
    session.engine.job = replace(session.engine.job, chunk=2)
    trace = session.run().trace
    close(trace.x, whole.x)
    np.testing.assert_array_equal(trace.columns["counts"], whole.columns["counts"])


FAULTY = {
    "fedavg": ALGORITHMS["fedavg"].make,
    "scaffold": ALGORITHMS["scaffold"].make,
    "mimelite": ALGORITHMS["mimelite"].make,
    "mbgd-k-vib": lambda _: t.MbGd(t.Independent(size=3.0, probability=t.KVib()), lr=0.05),
    "fedavg-available": lambda _: t.FedAvg(t.Available(t.Nice(3), probability=0.6, memory=0.5), lr=0.05, steps=3),
}
"""Under faults it is the handling of replies and states that differs, those of servers, clients and samplers."""


@pytest.mark.tiers(quick=[], slow=["mbgd-k-vib-repeat", "mimelite-skip", "scaffold-repeat"])
@pytest.mark.parametrize(("name", "missing"), [*product(FAULTY, ["skip", "repeat"])])
def test_nodes_give_the_compiled_run_under_faults(name, missing):
    algorithm = FAULTY[name](t.Independent(size=3.0))
    options = {"rounds": 3, "seed": 4, "faults": t.Faults(0.3, missing)}
    one, other = (t.run(algorithm, small(), engine=engine, **options) for engine in ("compiled", "nodes"))
    close(one.x, other.x)
    np.testing.assert_array_equal(one.columns["counts"], other.columns["counts"])
    totals = one.ledger.totals()
    assert totals["arrivals"] < totals["contacts"]


@pytest.mark.tiers(quick=[], longer=["nodes"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_a_lost_reply_is_never_passed_over_in_silence(engine):
    with pytest.raises(t.UserError, match="replies were lost by round"):
        t.run(ALGORITHMS["scaffold"].make(t.Nice(4)), small(), rounds=3, faults=t.Faults(0.5), engine=engine)


ONE_STEP = {
    "fedavg": (lambda s: t.FedAvg(s, lr=0.05, steps=1), 0.05),
    "gd": (lambda s: t.Gd(s, lr=0.05), 0.05),
    "mbgd": (lambda s: t.MbGd(s, lr=0.05), 0.05),
    "mblocalgd": (lambda s: t.MbLocalGd(s, lr=0.05, steps=1), 0.05),
    "fedvarp": (lambda s: t.FedVarp(s, lr=0.05, steps=1, memory="clients"), 0.05),
    "scaffold": (lambda s: t.Scaffold(s, lr=0.05, steps=1), 0.05),
    "sppm": (lambda s: t.Sppm(s, t.solvers.GradientDescent(smoothness=20.0, convexity=0.0), gamma=2.0, inner=1), 1 / 20.5),
}


@pytest.mark.tiers(quick=["sppm-quadratic"], longer=["fedavg-quadratic", "fedvarp-quadratic"])
@pytest.mark.parametrize(("name", "problem"), [*product(ONE_STEP, ["quadratic", "logistic"])])
def test_everyone_taking_one_step_is_gradient_descent(name, problem):
    (make, step), problem = ONE_STEP[name], {"quadratic": small, "logistic": logistic}[problem]()
    x = np.zeros(problem.start(None).size)
    for _ in range(6):
        x = x - step * gradient(problem, x)
    close(t.run(make(t.Full()), problem, rounds=6, engine="nodes").x, x)


CONTRACTIONS = {
    "mbgd": (lambda full: t.MbGd(full, lr=0.1), (1 - 0.1 * 1.0) ** 2),
    "fedavg": (lambda full: t.FedAvg(full, lr=0.1, steps=4), (1 - 0.1 * 1.0) ** 8),
    "mblocalgd": (lambda full: t.MbLocalGd(full, lr=0.1, steps=4), (1 - 0.1 * 1.0) ** 8),
    "sppm": (lambda full: t.Sppm(full, t.solvers.Bfgs(), gamma=2.0, inner=30), (1 + 2.0 * 1.0) ** -2),
    "scaffold": (lambda full: t.Scaffold(full, lr=0.1, steps=4), (1 - 0.1 * 1.0) ** 8),
}


@pytest.mark.tiers(quick=["mblocalgd"], longer=["fedavg", "scaffold"])
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_the_error_falls_at_the_theorems_rate(name):
    """With all clients alike f_i = f, mu = 1 and L = 10 there is neither drift nor noise: local descent contracts |x - x*|^2
    by (1 - lr mu)^(2E) a round, the proximal point by (1 + gamma mu)^-2, and on the slowest eigenvector exactly so."""
    make, factor = CONTRACTIONS[name]
    one = t.Quadratic.random(1, 5, seed=3)
    problem = t.Quadratic.of(np.repeat(one.rows[0], 6, axis=0), np.repeat(one.rows[1], 6, axis=0))
    error = t.run(make(t.Full()), problem, rounds=200, metrics=("distance",)).columns["distance"]
    assert np.all(error[1:] <= factor * error[:-1] * (1 + 1e-5) + 1e-24)
    above = error > 1e-20
    late = np.log(error[above])[above.sum() // 2 :]
    assert np.exp(np.polyfit(np.arange(late.size), late, 1)[0]) == pytest.approx(factor, rel=0.02)
