"""The contract of `ask`: what may be asked, in which order, and what is counted where."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import turnout as t
from tests.helpers.examples import PROBLEMS, logistic, quadratic
from turnout.core.errors import Caution
from turnout.problems.storage.jax_client import JaxClient
from turnout.problems.storage.store import store
from turnout.runs.session import Session

ENGINES = ["compiled", "nodes"]


@t.record
class Talker(t.Algorithm):
    """Draws, loops, branches and asks again: after each round x = (rounds, exchanges), to check the ledger with."""

    sampler: t.Sampler
    delegate: t.Sampler
    count: int

    def round(self, ask, x):
        cohort = ask.draw(self.sampler)
        ask(cohort, self.echo, x)
        x = ask.loop(self.count, lambda x: x + 0 * ask(cohort, self.echo, x).mean(), x)
        x = ask.loop(2, lambda x: x + 0 * ask(self.sampler, self.echo, x).mean(), x)

        def twice(x):
            again = ask.draw(self.delegate)
            ask(again, self.echo, (x, x))
            return x + 0 * ask(again, self.echo, (x, x)).mean()[0]

        x = ask.cond(x[0] % 2 == 0, twice, lambda x: x + 0 * ask(self.delegate, self.echo, x).mean(), x)
        return x + 1

    @t.on_client
    def echo(self, client, message):
        return t.Done(message, queries=client.id % 2)


@pytest.mark.tiers(quick=[], slow=["compiled"])
@pytest.mark.parametrize("engine", ENGINES)
def test_loops_and_branches_are_counted_as_they_happen(engine):
    """Round 1 (x = 0) takes the first branch, rounds 2 and 4 the other one, round 3 the first again."""
    algorithm = Talker(t.Nice(3), t.Delegate(client=1), 4)
    trace = t.run(algorithm, quadratic(), rounds=4, engine=engine)
    rows = {row["path"]: row for row in trace.ledger.rows()}
    assert list(rows) == [
        "0", "1", "2.loop.0", "3.loop.0", "3.loop.1", "4.then.0", "4.then.1", "4.then.2", "4.otherwise.0", "4.otherwise.1",
    ]  # fmt: skip
    counted = {path: (row["exchanges"], row["cohorts"], row["reasks"], row["contacts"]) for path, row in rows.items()}
    assert counted["1"] == (4, 4, 0, 12)
    assert counted["2.loop.0"] == (16, 0, 16, 48)
    assert counted["3.loop.1"] == (8, 8, 0, 24)
    assert counted["4.then.1"] == (2, 2, 0, 2)
    assert counted["4.then.2"] == (2, 0, 2, 2)
    assert counted["4.otherwise.1"] == (2, 2, 0, 2)
    assert (rows["0"]["draws_random"], rows["3.loop.0"]["draws_random"]) == (4, 8)
    assert (rows["4.then.0"]["draws_delegate"], rows["4.otherwise.0"]["draws_delegate"]) == (2, 2)
    assert (rows["4.then.1"]["vectors_down"], rows["4.then.1"]["bytes_up"]) == (2, 80)
    assert rows["4.then.1"]["queries_total"] == 2
    assert rows["1"]["queries_slowest"] <= 4


@pytest.mark.slow
def test_the_count_of_a_loop_is_swept_and_charged_by_cell():
    algorithm = Talker(t.Nice(3), t.Delegate(client=1), 4)
    swept = t.sweep(algorithm, quadratic(), {"count": [0, 2, 5]}, rounds=2)
    exchanges = [trace.ledger.totals()["exchanges"] for trace in swept.traces]
    assert exchanges == [2 * (1 + count + 2) + 3 for count in (0, 2, 5)]


@t.record
class Starter(t.Algorithm):
    """Collects all gradients once, before the first round, and keeps them with the clients: c = mean c_i throughout."""

    everyone: t.Sampler
    sampler: t.Sampler

    def start(self, ask, x):
        return x, ask(self.everyone, self.remember, x).average()

    def client_state(self, x):
        return jnp.zeros_like(x)

    def output(self, server):
        return server[0]

    def round(self, ask, server):
        x, c = server
        known = ask(self.sampler, self.recall, x).mean()
        return x + 0 * known, c

    @t.on_client
    def remember(self, client, x):
        gradient = client.grad(x)
        return t.Done(gradient, state=gradient)

    @t.on_client
    def recall(self, client, x):
        return t.Done(client.state, queries=0)


@pytest.mark.tiers(quick=[], longer=["compiled"])
@pytest.mark.parametrize("engine", ENGINES)
def test_exchanges_before_the_first_round_are_counted_and_kept(engine):
    session = Session(
        Starter(t.Full(size=5), t.Nice(2)), quadratic(), seeds=t.Seeds.of(0), rounds=3, engine=engine, metrics=("value",)
    )
    for _ in session.play():
        pass
    c = session.progress.server[1]
    np.testing.assert_allclose(c, -quadratic().rows[1].mean(0), atol=1e-13)
    np.testing.assert_allclose(session.progress.clients.mean(0), c, atol=1e-13)
    rows = {row["path"]: row for row in session.trace.ledger.rows()}
    assert list(rows) == ["start.0", "start.1", "0", "1"]
    assert (rows["start.0"]["draws_arbitrary"], rows["start.1"]["contacts"], rows["1"]["contacts"]) == (3, 12, 6)
    assert session.trace.columns["counts"][0].sum() > 0


@t.record
class Learner(t.Sampler):
    """Draws client 0 until it has been told of a second feedback, then client 1; counts what it was told."""

    learns_from_feedback = True

    def start(self, population):
        return jnp.zeros((), "int32")

    def draw(self, state, key, population):
        return t.Cohort.of((state >= 2).astype("int32")[None], 1.0, population, selection="arbitrary")

    def observe(self, state, cohort, feedback):
        return state + feedback.astype("int32")[0]


@t.record
class Watcher(t.Algorithm):
    """x counts how often client 1 was drawn."""

    sampler: t.Sampler

    def round(self, ask, x):
        cohort = ask.draw(self.sampler)
        replies = ask(cohort, self.who, x)
        ask.observe(replies, jnp.ones(1))
        return x + replies.mean()

    @t.on_client
    def who(self, client, x):
        return t.Done(jnp.full_like(x, client.id))


@pytest.mark.longer
@pytest.mark.parametrize("engine", ENGINES)
def test_a_sampler_learns_from_feedback(engine):
    trace = t.run(Watcher(Learner()), quadratic(), rounds=5, engine=engine)
    np.testing.assert_array_equal(trace.x, np.full(5, 3.0))


def test_a_sampler_learns_inside_a_loop_too():
    @t.record
    class Inside(Watcher):
        def round(self, ask, x):
            return ask.loop(5, lambda x: super(Inside, self).round(ask, x), x)

    np.testing.assert_array_equal(t.run(Inside(Learner()), quadratic(), rounds=1).x, np.full(5, 3.0))


class Raw(t.Algorithm):
    """Asks inside a raw JAX construct, which no engine can follow."""

    def round(self, ask, x):
        return self.wrong(ask, x)

    @t.on_client
    def echo(self, client, message):
        return t.Done(message)


@t.record
class InLoop(Raw):
    sampler: t.Sampler

    def wrong(self, ask, x):
        return lax.fori_loop(0, 2, lambda _, x: ask(self.sampler, self.echo, x).mean(), x)


@t.record
class InBranch(Raw):
    sampler: t.Sampler

    def wrong(self, ask, x):
        return lax.cond(x[0] > 0, lambda x: ask(self.sampler, self.echo, x).mean(), lambda x: x, x)


@t.record
class InVmap(Raw):
    sampler: t.Sampler

    def wrong(self, ask, x):
        return jax.vmap(lambda a: ask(self.sampler, self.echo, x).mean() * a)(x)[0]


@pytest.mark.parametrize("kind", [InLoop, InBranch, InVmap])
def test_asking_inside_a_raw_jax_construct_is_one_sentence(kind):
    with pytest.raises(t.UserError, match="use ask.loop or ask.cond"):
        t.run(kind(t.Nice(2)), quadratic(), rounds=1)


@t.record
class Unmarked(t.Algorithm):
    sampler: t.Sampler

    def round(self, ask, x):
        return ask(self.sampler, self.echo, x).mean()

    def echo(self, client, message):
        return t.Done(message)


@t.record
class Stranger(t.Algorithm):
    def round(self, ask, x):
        return ask(t.Nice(2), self.echo, x).mean()

    @t.on_client
    def echo(self, client, message):
        return t.Done(message)


@t.record
class Roundless(t.Algorithm):
    pass


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (Unmarked(t.Nice(2)), "mark it with @on_client"),
        (Stranger(), "is not a field of Stranger"),
        (Roundless(), "Roundless has no round"),
        (t.Algorithm(), "Algorithm is no record: write @turnout.record above the class"),
    ],
)
def test_what_may_not_be_asked(algorithm, words):
    with pytest.raises(t.UserError, match=words):
        t.run(algorithm, quadratic(), rounds=1)


@pytest.mark.longer
def test_a_cohort_from_elsewhere_counts_as_asked_again():
    """A cohort that was carried through a loop is no longer known to be fresh, and is never charged less."""

    @t.record
    class Carrier(Stranger):
        sampler: t.Sampler

        def round(self, ask, x):
            cohort = ask.draw(self.sampler)
            _, x = ask.loop(1, lambda both: (both[0], ask(both[0], self.echo, both[1]).mean()), (cohort, x))
            return x

    totals = t.run(Carrier(t.Nice(2)), quadratic(), rounds=3).ledger.totals()
    assert (totals["draws_random"], totals["cohorts"], totals["reasks"]) == (3, 0, 3)


@pytest.mark.slow
def test_local_randomness_belongs_to_client_round_and_seed():
    @t.record
    class Dice(t.Algorithm):
        sampler: t.Sampler

        def round(self, ask, x):
            return x + ask(self.sampler, self.roll, x).mean()

        @t.on_client
        def roll(self, client, x):
            return t.Done(jax.random.normal(client.key, x.shape))

    runs = {
        (engine, seed): t.run(Dice(t.Nice(3)), quadratic(), rounds=3, seed=seed, engine=engine)
        for engine in ENGINES
        for seed in (0, 1)
    }
    np.testing.assert_allclose(runs["compiled", 0].x, runs["nodes", 0].x, atol=1e-14)
    np.testing.assert_allclose(runs["compiled", 1].x, runs["nodes", 1].x, atol=1e-14)
    assert not np.allclose(runs["compiled", 0].x, runs["compiled", 1].x)


@t.record
class Sgd(t.Algorithm):
    """Local stochastic gradient steps on batches of two rows."""

    sampler: t.Sampler

    def round(self, ask, x):
        return jax.tree.map(jnp.add, x, ask(self.sampler, self.train, x).mean())

    @t.on_client
    def train(self, client, x):
        def step(carry):
            k, y = carry
            gradient = client.batch(jax.random.fold_in(client.key, k), 2).grad(y)
            return k + 1, jax.tree.map(lambda y, g: y - 0.05 * g, y, gradient)

        y = client.loop(3, step, (jnp.zeros((), "int32"), x))[1]
        return t.Done(jax.tree.map(jnp.subtract, y, x), queries=3)


@pytest.mark.tiers(quick=[], slow=["quadratic"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_batches_are_the_same_in_every_engine(name):
    runs = [t.run(Sgd(t.Nice(3)), PROBLEMS[name](), rounds=3, engine=engine) for engine in ENGINES]
    for one, other in zip(*(jax.tree.leaves(run.x) for run in runs), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.longer
def test_a_batchs_gradient_is_unbiased_for_the_clients_own():
    """Client 4 of `logistic` has 9 rows; the mean gradient of 4,000 batches of 3 is within 5 standard errors of grad f_4."""
    problem, x = logistic(), jnp.linspace(-1.0, 1.0, 5)
    client = JaxClient(4, None, None, jax.tree.map(jnp.asarray, store(problem)).oracle(jnp.int32(4)))
    batches = jax.vmap(lambda key: client.batch(key, 3).grad(x))(jax.random.split(jax.random.key(1), 4000))
    errors = batches.mean(0) - client.grad(x)
    assert np.all(np.abs(errors) <= 5 * batches.std(0) / np.sqrt(4000))


@pytest.mark.longer
def test_a_run_that_diverges_keeps_its_last_good_model():
    with pytest.warns(Caution, match=r"run diverged at round \d+: x has the parameters of round \d+; lower the step size"):
        trace = t.run(t.MbGd(t.Full(), lr=5.0), quadratic(), rounds=500, every=3)
    assert trace.diverged is not None and trace.diverged % 3 == 0 and f"diverged at round {trace.diverged}" in repr(trace)
    assert trace.columns["round"][-1] == trace.diverged - 3
    assert np.isfinite(trace.x).all() and np.isfinite(trace.frame["value"].to_numpy()).all()
    session = t.run(t.MbGd(t.Full(), lr=5.0), quadratic(), rounds=int(trace.columns["round"][-1]))
    np.testing.assert_allclose(trace.x, session.x, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": -1}, "rounds must be at least 0"),
        ({"rounds": 1, "every": 0}, "every must be at least 1"),
        ({"rounds": 1, "metrics": ("speed",)}, "unknown metric 'speed'"),
        ({"rounds": 1, "metrics": ("accuracy",)}, "no accuracy"),
    ],
)
def test_a_run_that_makes_no_sense_says_so(options, words):
    with pytest.raises(t.UserError, match=words):
        t.run(t.MbGd(t.Nice(2), lr=0.1), quadratic(), **options)


def test_a_session_refuses_a_snapshot_of_another_shape():
    from turnout.core.seeds import Seeds

    def make(problem):
        return Session(t.MbGd(t.Nice(2), 0.1), problem, seeds=Seeds.of(0), rounds=2)

    snapshot = make(quadratic()).snapshot()
    with pytest.raises(t.UserError, match="another shape or precision"):
        make(t.Quadratic.random(12, 7)).restore(snapshot)
