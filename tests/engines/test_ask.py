"""What samplers ask before they draw, and what they are told after."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.federations import ENGINES, SHARES, adaptive, counted, four, play, with_rows
from tests.helpers.gradients import client_gradient
from turnout.runs.session import Session


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_optimal_probabilities_are_those_of_the_updates_that_follow(engine):
    """Minibatches are drawn by the clients' own keys, so that no regret means the very same keys."""
    sampler = t.Independent(size=2.0, probability=t.Optimal())
    algorithm = t.MbLocalGd(sampler, lr=0.05, batch=2, epochs=1)
    trace = play(algorithm, with_rows(), 2, engine=engine, metrics=("variance", "regret")).trace
    assert np.all(np.abs(trace.columns["regret"]) < 1e-12) and np.all(trace.columns["variance"][1:] > 1e-4)


@pytest.mark.slow
def test_the_part_of_a_reply_that_is_like_the_parameters_is_what_counts():
    """Bfgs asks for the value beside the gradient."""
    sampler = t.Independent(size=2.0, probability=t.Optimal())
    trace = play(t.Sppm(sampler, t.solvers.Bfgs(smoothness=20.0), gamma=0.1, inner=2), four(), 3, metrics=("regret",)).trace
    assert np.all(np.abs(trace.columns["regret"]) < 1e-10)


@pytest.mark.tiers(quick=[], slow=["compiled"])
@pytest.mark.parametrize("engines", [("nodes", "compiled"), ("compiled", "nodes")], ids=lambda engines: engines[0])
def test_a_preview_is_charged_a_scalar_from_everyone_unless_it_is_free(engines):
    paid, free = (
        play(t.MbGd(t.Independent(size=2.0, probability=t.Optimal(free=free)), lr=0.05), four(), 5, engine=engine)
        for free, engine in zip((False, True), engines, strict=True)
    )
    np.testing.assert_allclose(paid.trace.x, free.trace.x, rtol=1e-12)
    rows = counted(paid)
    asked = rows.pop("0.preview")
    assert rows.pop("0.consulted")["draws_arbitrary"] == asked["exchanges"] == 5
    assert asked["contacts"] == asked["arrivals"] == asked["queries_total"] == 5 * 4
    assert (asked["vectors_down"], asked["vectors_up"], asked["bytes_up"], asked["aggregated"]) == (1, 0, 8, 0)
    assert rows == counted(free)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@ENGINES
def test_a_preview_leaves_the_clients_states_alone(engine):
    """The control variates of those drawn are g_i, and those of the others zero still."""
    sampler = t.Independent(size=2.0, probability=t.Optimal())
    session = play(t.FedVarp(sampler, lr=0.05, steps=1, memory="clients"), four(), 1, engine=engine)
    drawn = counted(session)["0"]["drawn"]
    states, expected = session.progress.clients, np.stack([-0.05 * client_gradient(four(), i, np.zeros(3)) for i in range(4)])
    kept = np.any(states != 0, axis=1)
    assert 0 < drawn == kept.sum() < 4
    np.testing.assert_allclose(states, np.where(kept[:, None], expected, 0), atol=1e-14)


@pytest.mark.slow
def test_who_did_not_answer_a_preview_can_still_be_drawn():
    population, rule = t.Population(count=4, weights=SHARES), t.Optimal()
    norms, told = jnp.array([1.0, jnp.nan, 0.5, 7.0]), jnp.array([True, True, True, False])
    scores = rule.scores(rule.observe_consulted(rule.start(population), norms, told), 2.0, population)
    np.testing.assert_allclose(scores, [1.0, 0.3 * 1.5 / 0.6, 0.5, 0.1 * 1.5 / 0.6])
    nobody = rule.observe_consulted(rule.start(population), norms, jnp.zeros(4, bool))
    np.testing.assert_allclose(rule.inclusion_probabilities(nobody, 2.0, population), 2 * SHARES)
    sampler = t.Independent(size=2.0, probability=rule)
    faulty = play(t.MbGd(sampler, lr=0.05), four(), 20, faults=t.Faults(0.4, "skip"), metrics=("regret",))
    asked = counted(faulty)["0.preview"]
    assert asked["arrivals"] < asked["contacts"] == 80 and faulty.trace.columns["regret"][-1] > 1e-3


@t.record
class Teller(t.Algorithm):
    """Tells the sampler `lie` about every client, and moves nothing."""

    sampler: t.Sampler
    lie: Any

    def round(self, ask, x):
        replies = ask(self.sampler, self.nothing, x)
        ask.observe(replies, jnp.full(replies.cohort.places, self.lie))
        return x + replies.average()

    @t.on_client
    def nothing(self, client, x):
        return t.Done(0 * x)


@pytest.mark.tiers(quick=[], longer=["compiled-nan", "compiled-inf"])
@pytest.mark.parametrize(("engine", "lie"), [("compiled", -1.0), ("compiled", np.nan), ("compiled", np.inf), ("nodes", -1.0)])
def test_feedback_that_is_no_norm_teaches_nothing_and_is_an_error(engine, lie):
    options = {"seeds": t.Seeds.of(3), "rounds": 4, "engine": engine, "metrics": ("value",)}
    session = Session(Teller(adaptive(), lie), four(), **options)
    before = jax.tree.map(np.array, session.progress.samplers)
    with pytest.raises(t.UserError, match="feedbacks to the sampler by round . were negative, NaN or infinite"):
        for _ in session.play():
            pass
    jax.tree.map(np.testing.assert_array_equal, before, session.progress.samplers)
    assert counted(session)["1"]["unusable"] == counted(session)["1"]["arrivals"] > 0
