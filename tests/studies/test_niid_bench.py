"""NIID-Bench's study: its local steps, what the faults of SCAFFOLD do, and its splits."""

from functools import cache

import numpy as np
import pytest

import turnout as t
from turnout.core.errors import UserError
from turnout.core.named_class import named_class
from turnout.data import ContiguousSplit, Dataset, load
from turnout.runs.session import Session
from turnout.studies.papers import PAPERS

FOLDER = PAPERS / "niid-bench"
WORK = {"lr": 0.02, "batch": 3, "epochs": 2}
STEPS = 4
"""Local steps of each client in a round."""

GENERATOR = np.random.default_rng(0)
DATA = Dataset("made", GENERATOR.normal(size=(36, 4)), np.tile([-1.0, 1.0], 18))
PROBLEM = t.Logistic.of(DATA, ContiguousSplit(6).split(DATA), mu=0.1)
START = GENERATOR.normal(size=4)


def part(name: str) -> type:
    """A class of the study."""
    return named_class(name, FOLDER)


def algorithm(name: str, drawn: int = 6, **options):
    return part(f"algorithms.py:{name}")(t.Full() if drawn == 6 else t.Nice(drawn), **WORK, **options)


@cache
def after(name: str, rounds: int, drawn: int = 6, **options):
    """x and c [d] and all c_i [n, d] after some rounds with six clients."""
    session = Session(algorithm(name, drawn, **options), PROBLEM, rounds=rounds, every=rounds, metrics=("value",), start=START)
    session.run()
    clients = session.progress.clients
    return *map(np.asarray, session.progress.server), np.asarray(getattr(clients, "variate", clients))


def last(algorithm):
    return t.run(algorithm, PROBLEM, rounds=3, every=3, start=START).x


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mine", "usual"),
    [
        (algorithm("MomentumFedProx", momentum=0.0, mu=0.5), t.FedProx(t.Full(), **WORK, mu=0.5)),
        (algorithm("FaultyScaffold", 2, momentum=0.0), t.Scaffold(t.Nice(2), **WORK)),
        # Where all take as many steps, FedNova is FedAvg.
        (algorithm("MomentumFedAvg"), t.FedNova(t.Full(), **WORK, momentum=0.9)),
    ],
    ids=["fedprox", "scaffold", "fednova"],
)
def test_without_momentum_and_without_faults_local_steps_are_the_usual_ones(mine, usual):
    np.testing.assert_allclose(last(mine), last(usual), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("variates", ["random", "model"])
def test_a_wrong_start_of_the_variates_is_forgotten_if_all_take_part(variates):
    """c - c_i = 0 in the first round, after which c_i is a mean gradient and c the mean of all c_i."""
    x, c, own = after("FaultyScaffold", 2, variates=variates)
    np.testing.assert_allclose(x, after("MomentumScaffold", 2)[0], atol=1e-12)
    np.testing.assert_allclose(c, own.mean(axis=0), atol=1e-12)


@pytest.mark.slow
def test_a_random_start_of_the_variates_stays_with_those_who_were_not_drawn():
    """Their variates are still the first model in another order."""
    _, c, own = after("FaultyScaffold", 1, 2, variates="random")
    still = own[np.isclose(np.sort(own), np.sort(START)).all(axis=1)]
    assert len(still) == 4 and np.ptp(still, axis=0).max() == 0
    np.testing.assert_allclose(c, own.mean(axis=0), atol=1e-12)


@pytest.mark.slow
def test_the_sum_of_the_variates_is_lost_where_later_ones_start_as_the_model():
    """c is the mean of all c_i after the first round, and no longer after eight."""
    gaps = [np.abs(c - own.mean(axis=0)).max() for _, c, own in (after("FaultyScaffold", k, 2, variates="model") for k in (1, 8))]
    assert gaps[0] < 1e-12 and gaps[1] > 1e-3


@pytest.mark.slow
def test_without_the_share_c_is_too_large_by_its_inverse():
    _, right, own = after("MomentumScaffold", 1, 2)
    np.testing.assert_allclose(right, own.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(after("FaultyScaffold", 1, 2, server="mean")[1], 3 * right, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "factor"), [("batches", 2), ("epochs", STEPS * WORK["lr"] / 2)])
def test_wrong_divisors_stretch_the_first_variates(scale, factor):
    """By E = 2 epochs; and by E_i lr / E."""
    np.testing.assert_allclose(after("FaultyScaffold", 1, scale=scale)[1], factor * after("MomentumScaffold", 1)[1], atol=1e-12)


@pytest.mark.slow
def test_variates_that_are_not_saved_lead_back_to_the_first_model():
    """c = (x - x_0) / (E_i lr) after each round, so that the next one takes E_i lr c = x - x_0 back."""
    for rounds in (1, 2, 5):
        x, c, _ = after("UnsavedScaffold", rounds)
        np.testing.assert_allclose(c, (x - START) / (STEPS * WORK["lr"]), atol=1e-10)


@pytest.mark.longer
def test_a_client_with_its_even_share_gets_no_further_label():
    data = Dataset("made", np.zeros((1200, 1)), np.repeat(np.arange(4), 300))
    for seed in range(5):
        split = part("rows.py:BalancedDirichlet")(clients=4, concentration=0.5, seed=seed).split(data)
        assert np.array_equal(np.sort(split.indices), np.arange(1200)) and split.sizes.min() >= 10
        counts = np.stack([np.bincount(data.labels[split.rows(client)], minlength=4) for client in range(4)])
        before = np.cumsum(counts, axis=1) - counts
        # A row may be left over by rounding.
        assert counts[before >= 300].max(initial=0) <= 1 and np.ptp(counts[before < 300]) > 100
    with pytest.raises(UserError, match="no draw of 1000 left each of 130 clients 10 rows: take fewer clients"):
        part("rows.py:BalancedDirichlet")(clients=130).split(data)


def test_fcube_has_two_opposite_octants_a_client_and_a_plane_between_the_labels():
    fcube = part("rows.py:Fcube")
    train, test = fcube().load(), fcube(part="test").load()
    assert train.rows == 4000 and test.rows == 1000 and np.abs(train.features).max() <= 1
    octants = np.sign(train.features)
    seen = {tuple(sign) for client in range(4) for sign in np.unique(octants[train.ids == client], axis=0).tolist()}
    assert len(seen) == 8
    for client in range(4):
        signs, counts = np.unique(octants[train.ids == client], axis=0, return_counts=True)
        assert np.array_equal(signs[0], -signs[1]) and counts.tolist() == [500, 500]
    for data in (train, test):
        assert np.array_equal(data.labels, (data.features[:, 0] <= 0).astype(int))


def test_the_first_rows_are_those_of_the_data_set():
    first, whole = part("rows.py:FirstRows")(name="digits", rows=20).load(), load("digits")
    assert np.array_equal(first.features, whole.features[:20]) and np.array_equal(first.labels, whole.labels[:20])
