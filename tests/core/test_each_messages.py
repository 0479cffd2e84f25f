"""Messages that differ from client to client, and local problems that were not solved."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.examples import logistic
from turnout.runs.session import Session


@t.record
class Mailbox(t.Algorithm):
    """Each client is sent what the server keeps for it, and replies with that plus its own number; x is the mean."""

    sampler: t.Sampler
    clients: int = t.static()

    def start(self, ask, x):
        return x, jnp.zeros((self.clients, 2))

    def output(self, server):
        return server[0]

    def round(self, ask, server):
        x, kept = server
        cohort = ask.draw(self.sampler)
        replies = ask(cohort, self.echo, {"all": x, "own": (t.Each({"kept": kept[cohort.ids], "place": cohort.ids}), ask.round)})
        heard = jnp.where(replies.answered, cohort.ids, self.clients)
        return replies.mean()[0], kept.at[heard].set(replies.values[1], mode="drop")

    @t.on_client
    def echo(self, client, message):
        own, number = message["own"]
        # A client that is handed another's part cannot go unnoticed.
        wrong = jnp.where(own["place"] == client.id, 0, 1)
        new = own["kept"] + jnp.stack([jnp.asarray(client.id + 1, float), jnp.asarray(number, float)])
        return t.Done((message["all"] + jnp.sum(new), new), queries=0, missed=wrong)


def reference(problem, sampler, rounds):
    """Which clients were drawn, and what the server then keeps for each."""
    kept = np.zeros((problem.clients, 2))
    for number in range(1, rounds + 1):
        cohort = sampler.draw(None, t.Seeds.of(0).draw(number, 0), problem.population)
        for i in np.asarray(cohort.ids)[np.asarray(cohort.active)]:
            kept[i] += [i + 1, number]
    return kept


@pytest.mark.slow
def test_each_client_gets_its_own_part_and_is_charged_for_one():
    """In both engines, and computed one client at a time."""
    problem, sampler, runs = logistic(), t.Independent(probability=0.4, capacity=8), []
    for options in ({"engine": "compiled"}, {"engine": "nodes"}, {"engine": "compiled", "chunk": 1}):
        session = Session(Mailbox(sampler, 12), problem, seeds=t.Seeds.of(0), rounds=6, engine=options["engine"])
        session.engine.job = replace(session.engine.job, chunk=options.get("chunk", 12))
        for _ in session.play():
            pass
        np.testing.assert_allclose(session.progress.server[1], reference(problem, sampler.bind(problem.population), 6))
        runs.append(session.trace)
    for run in runs:
        np.testing.assert_allclose(run.x, runs[0].x, rtol=1e-13)
        np.testing.assert_array_equal(run.columns["counts"], runs[0].columns["counts"])
    totals = runs[0].ledger.totals()
    # Down: x [5], the client's own [2], its place and the round; up: one vector and the client's own [2].
    assert totals["bytes_down"] == totals["contacts"] * (5 * 8 + 2 * 8 + 4 + 4)
    assert totals["bytes_up"] == totals["arrivals"] * (5 * 8 + 2 * 8)
    assert totals["vectors_down"] == totals["contacts"] > 0


@t.record
class Wrong(t.Algorithm):
    """Sends each place something, stacked over the wrong number of places."""

    sampler: t.Sampler
    also: str = t.static(default="shape")

    def round(self, ask, x):
        cohort = ask.draw(self.sampler, self.echo, t.Each(x[None]))
        return ask(cohort, self.echo, t.Each(jnp.broadcast_to(x, (3, *x.shape)))).mean()

    @t.on_client
    def echo(self, client, x):
        return t.Done(x, missed=1 if self.also == "missed" else 0)


@pytest.mark.tiers(longer=["algorithm3-options3-3 local problems by round 1 were not solved as well as wanted"])
@pytest.mark.parametrize(
    ("algorithm", "options", "words"),
    [
        (Wrong(t.Nice(2)), {}, "stacked over the cohort's 2 places"),
        (Wrong(t.Nice(3)), {"metrics": ("variance",)}, "metrics judge the draws by the replies of all clients, but Wrong has"),
        (Wrong(t.PowerOfChoice(3, candidates=5)), {}, "the sampler asks clients before it draws, but Wrong has a message"),
        (Wrong(t.Nice(3), "missed"), {}, "3 local problems by round 1 were not solved as well as wanted"),
    ],
)
def test_what_cannot_be_is_one_sentence(algorithm, options, words):
    with pytest.raises(t.UserError, match=words):
        t.run(algorithm, t.Quadratic.random(12, 5, seed=1), rounds=1, **options)
