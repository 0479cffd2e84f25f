"""Algorithms that give each client a model of its own: by hand in NumPy, fixed points, and what goes together."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest

import turnout as t
from tests.algorithms.test_references import ROUNDS, cohorts
from tests.engines.test_groups import by_hand, played
from tests.helpers.centred import CLIENTS, centred
from tests.helpers.examples import quadratic, small
from tests.helpers.gradients import client_gradient
from turnout.core.seeds import Seeds
from turnout.experiment.config import Reader
from turnout.testing.algorithms import CHECKS, case

pytestmark = pytest.mark.filterwarnings("ignore:a client takes part")

SAMPLER = t.Nice(4)
EXACT = t.client_solvers.Bfgs(tolerance=1e-13)


def models(trace, problem) -> np.ndarray:
    """The model of every client [n, d]."""
    return np.array([trace.model(i) for i in range(problem.clients)])


LEAVES = {
    "fedper": (t.FedPer(t.Full(), lr=0.1, steps=2, leaves="bias"), t.Personal("bias", lr=0.1, trained="within")),
    "fedbn": (
        t.FedBn(t.Full(), lr=0.1, steps=2, leaves=["bias", "running*"]),
        t.Personal(["bias", "running_mean"], lr=0.1, trained="within"),
    ),
}


@pytest.mark.tiers(longer=["fedbn"], everything=["fedper"])
@pytest.mark.parametrize("name", LEAVES)
def test_personal_leaves_take_the_local_steps(name):
    """`played` is checked against NumPy in tests/engines/test_groups.py."""
    algorithm, group = LEAVES[name]
    one, other = t.run(algorithm, centred(), rounds=3, metrics=("value",)), played(group)
    for i in range(CLIENTS):
        for leaf, expected in other.model(i).items():
            np.testing.assert_allclose(one.model(i)[leaf], expected, rtol=1e-13)
    np.testing.assert_allclose(one.metrics["value"], other.metrics["value"], rtol=1e-13)


@pytest.mark.longer
def test_fedrep_is_its_numpy_program():
    """Three steps of the head at the received weights, then two of the weights."""
    algorithm = t.FedRep(t.Full(), lr=0.1, steps=2, leaves="bias", own_lr=0.2, own_steps=3)
    trace = t.run(algorithm, centred(), rounds=3, metrics=("value",))
    for i, model in enumerate(by_hand(personal=("bias",))):
        for leaf, expected in model.items():
            np.testing.assert_allclose(trace.model(i)[leaf], expected, rtol=1e-12)


@pytest.mark.longer
def test_fedbabu_is_its_numpy_program():
    """Two steps of the weights below the first head; then three of the head at the last weights."""
    algorithm = t.FedBabu(t.Full(), lr=0.1, steps=2, leaves="bias", own_lr=0.2, own_steps=3)
    trace = t.run(algorithm, centred(), rounds=3, metrics=("value",))
    for i, model in enumerate(by_hand(personal=("bias",), trained="after")):
        for leaf, expected in model.items():
            np.testing.assert_allclose(trace.model(i)[leaf], expected, rtol=1e-12)


SWEPT = {
    "lr": t.FedPer(t.Full(), lr=0.1, leaves="bias"),
    "own_lr": t.FedRep(t.Full(), lr=0.1, own_lr=0.1, leaves="bias"),
}


@pytest.mark.tiers(quick=[], longer=["own_lr"])
@pytest.mark.parametrize("name", SWEPT)
def test_a_sweep_of_the_step_size_is_one_of_personal_leaves_too(name):
    swept = t.sweep(SWEPT[name], centred(), {name: [0.1, 0.3]}, seeds=[0], rounds=2, metrics=("value",))
    for value, trace in zip((0.1, 0.3), swept.traces, strict=True):
        single = t.run(replace(SWEPT[name], **{name: value}), centred(), rounds=2, metrics=("value",))
        np.testing.assert_allclose(trace.metrics["value"], single.metrics["value"], rtol=1e-12)


MIXTURES = {
    "flix": (t.Flix(SAMPLER, EXACT, lr=0.05, alpha=0.5), "alpha", [0.0, 0.7]),
    "scafflix": (t.Scafflix(SAMPLER, EXACT, lr=0.05, alpha=0.5, probability=0.5), "alpha", [0.2, 0.7]),
    "apfl": (t.Apfl(SAMPLER, lr=0.05, steps=3, alpha=0.5, alpha_lr=0.1), "alpha_lr", [0.01, 0.1]),
}


@pytest.mark.tiers(quick=[], slow=["scafflix"])
@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures_are_swept(name):
    algorithm, field, values = MIXTURES[name]
    swept = t.sweep(algorithm, quadratic(), {field: values}, seeds=[0], rounds=3, metrics=("value",))
    for value, trace in zip(values, swept.traces, strict=True):
        single = t.run(replace(algorithm, **{field: value}), quadratic(), rounds=3, metrics=("value",))
        np.testing.assert_allclose(trace.metrics["value"], single.metrics["value"], rtol=1e-12)
    assert not np.allclose(*(trace.metrics["value"] for trace in swept.traces), rtol=1e-3)


OF_EACH = {
    "flix": t.Flix(t.Nice(3), EXACT, lr=0.05, alpha=[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
    "scafflix": t.Scafflix(t.Nice(3), EXACT, lr=[0.05] * 5 + [0.1], alpha=[0.5, 0.2, 0.4, 0.6, 0.8, 1.0], probability=0.5),
    "apfl": t.Apfl(t.Nice(3), lr=0.05, steps=3, alpha=0.5, alpha_lr=0.1),
}


@pytest.mark.tiers(quick=[], slow=["scafflix"])
@pytest.mark.parametrize("name", OF_EACH)
def test_conformance_where_each_client_has_its_mixture(name):
    shared = case(OF_EACH[name], small())
    for check in ("states_keep_their_types", "engines_agree", "lost_replies_are_mended", "resumes_to_the_bit"):
        CHECKS[check](shared)
    single = t.run(OF_EACH[name], small(), rounds=3, precision="single")
    np.testing.assert_allclose(single.x, t.run(OF_EACH[name], small(), rounds=3).x, rtol=1e-4)


UNUSABLE = [
    (
        lambda: t.Flix(SAMPLER, EXACT, lr=0.1, alpha=[0.5] * 3),
        "Flix.alpha must be one number, or a list of 12, one for each client",
    ),
    (lambda: t.Flix(SAMPLER, EXACT, lr=0.1, alpha=np.full((12, 2), 0.5)), "Flix.alpha must be one number, or a list of 12"),
    (lambda: t.Flix(SAMPLER, EXACT, lr=0.1, alpha=[0.5, 2.0]), "Flix.alpha must be at most 1, but entry 1 is 2"),
    (lambda: scafflix(lr=[0.1] * 13), "Scafflix.lr must be one number, or a list of 12, one for each client"),
    (lambda: scafflix(lr=[0.1, 0]), "Scafflix.lr must be greater than 0, but entry 1 is 0"),
    (lambda: scafflix(alpha=0.0), "Scafflix.alpha must be greater than 0, but it is 0"),
    (lambda: scafflix(alpha=np.linspace(0, 1, 12)), "Scafflix.alpha must be greater than 0, but entry 0 is 0"),
    (lambda: t.Apfl(SAMPLER, lr=0.1, alpha=0.5, alpha_lr=0.0), "Apfl.alpha_lr must be greater than 0, but it is 0"),
]


def scafflix(lr=0.1, alpha=0.5) -> t.Scafflix:
    return t.Scafflix(SAMPLER, EXACT, lr=lr, alpha=alpha, probability=0.5)


@pytest.mark.parametrize(("make", "words"), UNUSABLE)
def test_unusable_mixtures_are_one_sentence(make, words):
    with pytest.raises(t.UserError) as error:
        t.run(make(), quadratic(), rounds=1)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_configuration_gives_every_client_its_mixture():
    tables = {
        "problem": {"kind": "ridge", "data": "made"},
        "split": {"kind": "iid", "clients": 3},
        "sampler": {"kind": "full"},
        "algorithm": {
            "kind": "scafflix",
            "solver": "bfgs",
            "lr": [0.1, 0.2, 0.3],
            "alpha": [0.5, 1, 0.1],
            "probability": 0.5,
        },
    }
    experiment = Reader("made.toml", "", tables).experiment("made")
    assert experiment.algorithm.alpha == [0.5, 1, 0.1] and experiment.algorithm.lr == [0.1, 0.2, 0.3]
    assert "alpha = [\n" in experiment.to_toml()


@pytest.mark.longer
def test_groups_of_an_algorithm_and_of_a_problem_are_the_same_or_refused():
    algorithm = t.FedPer(t.Full(), lr=0.1, leaves="bias")
    same = t.Grouped.of(centred(), *algorithm.model_groups)
    one, other = (t.run(algorithm, problem, rounds=2, metrics=("value",)) for problem in (same, centred()))
    np.testing.assert_array_equal(one.metrics["value"], other.metrics["value"])
    for group in (t.Frozen("bias"), t.Personal("bias", lr=0.2, trained="within")):
        with pytest.raises(t.UserError, match="FedPer has groups of its own, and so has the problem"):
            t.run(algorithm, t.Grouped.of(centred(), group), rounds=1)


def test_normalisation_goes_by_its_name_unless_leaves_are_given():
    assert t.FedBn(t.Full(), lr=0.1).model_groups[0].leaves == ("*norm*",)
    with pytest.raises(t.UserError, match="is no part of the model, which has"):
        t.run(t.FedBn(t.Full(), lr=0.1), centred(), rounds=1)


def mean(ends) -> np.ndarray:
    return sum(share * y for share, y in ends) / sum(share for share, _ in ends)


def descent(problem, i, y, lr=0.05, steps=3) -> np.ndarray:
    for _ in range(steps):
        y = y - lr * client_gradient(problem, i, y)
    return y


def proximal(problem, i, lam, w) -> np.ndarray:
    """argmin f_i(v) + (lam / 2) |v - w|^2."""
    matrices, vectors = problem.rows
    return np.linalg.solve(matrices[i] + lam * np.eye(len(w)), vectors[i] + lam * w)


def ditto(problem, i, x, own, share):
    for _ in range(2):
        own = own - 0.04 * (client_gradient(problem, i, own) + 0.7 * (own - x))
    return descent(problem, i, x), own, share


def apfl(problem, i, x, own, share, alpha_lr=0.0):
    w, alpha = x, 1 - share
    for step in range(3):
        mixed, old = client_gradient(problem, i, alpha * own + (1 - alpha) * w), alpha
        if step == 0:
            alpha = np.clip(alpha - alpha_lr * mixed @ (own - w), 0, 1)
        w, own = w - 0.05 * client_gradient(problem, i, w), own - 0.05 * old * mixed
    return w, own, 1 - alpha


def pfedme(problem, i, x, own, share):
    w = x
    for _ in range(2):
        own = proximal(problem, i, 3.0, w)
        w = w - 0.1 * 3.0 * (w - own)
    return 0.2 * x + 0.8 * w, own, share


def flix(problem, i, x, own, share):
    own, alpha = proximal(problem, i, 0.0, x), ALPHAS[i]
    return x - 0.05 * alpha * client_gradient(problem, i, alpha * x + (1 - alpha) * own), own, alpha


ALPHAS = [k / 11 for k in range(12)]

BY_HAND = {
    "ditto": (t.Ditto(SAMPLER, lr=0.05, steps=3, lam=0.7, own_lr=0.04, own_steps=2), ditto, 0.0),
    "apfl": (t.Apfl(SAMPLER, lr=0.05, steps=3, alpha=0.3), apfl, 0.7),
    "apfl-adaptive": (
        t.Apfl(SAMPLER, lr=0.05, steps=3, alpha=0.3, alpha_lr=0.3),
        partial(apfl, alpha_lr=0.3),
        0.7,
    ),
    "pfedme": (t.PFedMe(SAMPLER, EXACT, lr=0.1, steps=2, lam=3.0, server_lr=0.8), pfedme, 0.0),
    "flix": (t.Flix(SAMPLER, EXACT, lr=0.05, alpha=ALPHAS), flix, 1.0),
}
"""The algorithm, what a client sends and keeps in one round, and the share of x in the model that it uses at first."""


@pytest.mark.tiers(longer=["ditto"], everything=["pfedme", "flix", "apfl", "apfl-adaptive"])
@pytest.mark.parametrize("name", BY_HAND)
def test_a_run_is_its_numpy_program(name):
    (algorithm, client, first), problem = BY_HAND[name], quadratic()
    trace = t.run(algorithm, problem, rounds=ROUNDS, seed=1, metrics=("value",), faults=t.Faults(0.0, "repeat"))
    x, own, share_of_x = np.zeros(5), np.zeros((problem.clients, 5)), np.full((problem.clients, 1), first)
    for cohort in cohorts(SAMPLER, problem, 1):
        ends = []
        for i, share, _ in cohort:
            end, own[i], share_of_x[i] = client(problem, i, x, own[i], share_of_x[i])
            ends.append((share, end))
        x = mean(ends)
    own = share_of_x * x + (1 - share_of_x) * own
    np.testing.assert_allclose(trace.x, x, atol=1e-9)
    np.testing.assert_allclose(models(trace, problem), own, atol=1e-9)
    matrices, vectors = problem.rows
    values = [v @ a @ v / 2 - b @ v for a, b, v in zip(matrices, vectors, own, strict=True)]
    offsets = np.array(trace.clients["loss"]) - values
    np.testing.assert_allclose(offsets, offsets[0], atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    "work", [{"steps": 3}, {"batch": 1, "epochs": 2, "schedule": t.schedules.Inverse(5.0)}], ids=["steps", "epochs"]
)
def test_the_shared_parameters_of_ditto_and_apfl_are_those_of_fedavg(work):
    problem = quadratic()
    plain = t.run(t.FedAvg(t.Nice(4), lr=0.05, **work), problem, rounds=4, seed=3)
    for algorithm in (
        t.Ditto(t.Nice(4), lr=0.05, lam=0.3, own_lr=0.1, **work),
        t.Apfl(t.Nice(4), lr=0.05, alpha=0.5, **work),
        t.Apfl(t.Nice(4), lr=0.05, alpha=0.5, alpha_lr=0.1, **work),
    ):
        np.testing.assert_allclose(t.run(algorithm, problem, rounds=4, seed=3).x, plain.x, rtol=1e-13)


@pytest.mark.longer
def test_pfedme_ends_at_the_minimum_of_the_mean_of_moreau_envelopes():
    """sum_i lambda_i lam (x - theta_i(x)) = 0, which is linear for quadratics."""
    problem, lam = quadratic(), 2.0
    trace = t.run(t.PFedMe(t.Full(), EXACT, lr=0.3, steps=1, lam=lam), problem, rounds=300, every=300)
    matrices, vectors = problem.rows
    inverses = np.linalg.inv(matrices + lam * np.eye(5))
    best = np.linalg.solve(np.eye(5) - lam * inverses.mean(0), np.einsum("nij,nj->i", inverses, vectors) / 12)
    np.testing.assert_allclose(trace.x, best, atol=1e-9)
    np.testing.assert_allclose(models(trace, problem), [proximal(problem, i, lam, best) for i in range(12)], atol=1e-8)


@pytest.mark.longer
def test_the_step_of_pfedme_is_along_the_gradient_of_the_envelope():
    problem, lam, i = quadratic(), 2.0, 3
    matrices, vectors = problem.rows

    def envelope(w):
        v = proximal(problem, i, lam, w)
        return v @ matrices[i] @ v / 2 - vectors[i] @ v + lam / 2 * (v - w) @ (v - w)

    w = np.arange(5.0)
    slopes = [(envelope(w + e) - envelope(w - e)) / 2e-5 for e in 1e-5 * np.eye(5)]
    trace = t.run(t.PFedMe(t.Full(), EXACT, lr=0.1, steps=1, lam=lam), problem.client(i), rounds=1, start=w)
    np.testing.assert_allclose(w - trace.x, 0.1 * np.array(slopes), atol=1e-6)


@pytest.mark.longer
def test_flix_ends_at_the_minimum_of_its_mixtures():
    problem = quadratic()
    trace = t.run(t.Flix(t.Full(), EXACT, lr=0.3, alpha=ALPHAS), problem, rounds=1000, every=1000)
    slopes = [ALPHAS[i] * client_gradient(problem, i, model) for i, model in enumerate(models(trace, problem))]
    np.testing.assert_allclose(np.mean(slopes, axis=0), 0, atol=1e-9)


@pytest.mark.longer
def test_flix_searches_once_for_each_client():
    solver = t.client_solvers.Gradient(lr=0.02, steps=7, tolerance=0.0)
    algorithm = t.Flix(t.Full(), solver, lr=0.05, alpha=0.5)
    queries = [t.run(algorithm, quadratic(), rounds=rounds).ledger.totals()["queries_total"] for rounds in (1, 4)]
    assert queries[1] == queries[0] + 3 * 12 and queries[0] > 7 * 12


@pytest.mark.longer
def test_l2gd_is_its_numpy_program():
    """Each step of the penalty and each gradient step by itself, with the server's coins."""
    problem, lr, p, lam = quadratic(), 0.03, 0.4, 2.0
    trace = t.run(t.L2gd(t.Nice(4), lr=lr, probability=p, lam=lam), problem, rounds=6, seed=1)
    x, own, pulls, total = np.zeros(5), np.zeros((12, 5)), 0, 0
    for number in range(1, 7):
        steps_key, pulls_key = jax.random.split(jax.random.fold_in(Seeds.of(1).exchange(number, 0), 12))
        steps = int(jax.random.geometric(steps_key, p, dtype="int32"))
        for i in range(12):
            for _ in range(pulls):
                own[i] = own[i] - lr / p * lam * (own[i] - x)
            own[i] = descent(problem, i, own[i], lr / (1 - p), steps)
        x, pulls, total = own.mean(0), int(jax.random.geometric(pulls_key, 1 - p, dtype="int32")), total + steps
    np.testing.assert_allclose(trace.x, x, atol=1e-12)
    np.testing.assert_allclose(models(trace, problem), own, atol=1e-12)
    assert trace.ledger.totals()["queries_total"] == 12 * total


@pytest.mark.longer
def test_l2gd_comes_as_near_to_its_optimum_as_the_theorem_says():
    """x_i* solves A_i x_i - b_i + lam (x_i - mean x) = 0, and once the start is forgotten

    E sum |x_i - x_i*|^2 <= (2 lr / mu) sum_i (|grad f_i(x_i*)|^2 / (1 - p) + lam^2 |x_i* - mean x*|^2 / p)  (Theorem 4.1).
    """
    problem, lam, probability, lr = quadratic(), 2.0, 0.5, 0.005
    matrices, vectors = problem.rows
    inverses = np.linalg.inv(matrices + lam * np.eye(5))
    middle = np.linalg.solve(np.eye(5) - lam * inverses.mean(0), np.einsum("nij,nj->i", inverses, vectors) / 12)
    best = np.einsum("nij,nj->ni", inverses, vectors + lam * middle)
    mu, pulls = np.linalg.eigvalsh(matrices).min(), lam**2 * np.sum((best - best.mean(0)) ** 2)
    bound = 2 * lr / mu * pulls * (1 / (1 - probability) + 1 / probability)
    algorithm, rounds = t.L2gd(t.Full(), lr=lr, probability=probability, lam=lam), int(10 / (mu * lr))
    traces = (t.run(algorithm, problem, rounds=rounds, every=rounds, seed=seed) for seed in range(3))
    errors = [np.sum((models(trace, problem) - best) ** 2) for trace in traces]
    assert np.mean(errors) < bound < np.sum(best**2) / 10
