"""Requests in flight against event loops in NumPy, and in all engines alike."""

import heapq
from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from tests.algorithms.test_compressed import top_two
from tests.codecs.test_exchange import COMPRESSED
from tests.helpers.examples import ASYNCHRONOUS, quadratic, small
from turnout.runs.session import Session
from turnout.samplers import Available

SPEEDS = np.array([0.31, 1.7, 0.53, 2.9, 0.77, 1.1])
"""Seconds of an oracle call of each client; no two of their sums in a run are equal."""

LATENCY, LR = 0.013, 0.03


def devices(**options) -> t.Devices:
    return t.Devices(seconds_per_query=SPEEDS, latency=LATENCY, **options)


def gradients():
    """Return the weights of the clients and the gradient of each."""
    problem = small()
    matrices, vectors = (np.asarray(part) for part in problem.rows)
    dense = matrices if matrices.ndim == 3 else np.stack([np.diag(row) for row in matrices])
    return np.asarray(problem.population.shares), lambda i, x: dense[i] @ x - vectors[i]


class Workers:
    """All clients at work, each of which goes on at once with the model that it is given."""

    def __init__(self, x, steps: int = 1):
        self.shares, self.gradient = gradients()
        self.steps, self.now, self.events = steps, 0.0, []
        for i in range(len(self.shares)):
            self.give(i, x, 0)

    def give(self, i: int, x, version: int) -> None:
        y = x
        for _ in range(self.steps):
            y = y - LR * self.gradient(i, y)
        time = self.now + LATENCY + self.steps * SPEEDS[i]
        heapq.heappush(self.events, (time, i, version, x, y))

    def next(self):
        """Return the next client that is done, the step at which it got its model, this model, and its own."""
        self.now, *rest = heapq.heappop(self.events)
        return rest


def fedbuff(x, rounds: int, workers: Workers, size: int, server_lr: float, power: float):
    step, waiting = 0, []
    while step < rounds:
        i, version, before, y = workers.next()
        waiting.append((1 + step - version) ** -power * (y - before))
        if len(waiting) == size:
            x, step, waiting = x + server_lr * sum(waiting) / size, step + 1, []
        if step < rounds:
            workers.give(i, x, step)
    return x


def fedasync(x, rounds: int, workers: Workers, alpha: float, power: float):
    for step in range(rounds):
        i, version, _, y = workers.next()
        weight = alpha * (1 + step - version) ** -power
        x = (1 - weight) * x + weight * y
        workers.give(i, x, step + 1)
    return x


def mifa(x, rounds: int, workers: Workers):
    memory = np.zeros((len(SPEEDS), x.size))
    for step in range(rounds):
        i, _, before, y = workers.next()
        memory[i] = y - before
        x = x + workers.shares @ memory
        workers.give(i, x, step + 1)
    return x


def ringmaster(x, rounds: int, workers: Workers, threshold: int):
    step = 0
    for _ in range(rounds):
        i, version, before, y = workers.next()
        if step - version < threshold:
            x, step = x + (y - before), step + 1
        workers.give(i, x, step)
    return x


def rescaled(x, rounds: int, workers: Workers, seconds=None):
    for step in range(rounds):
        i, version, before, y = workers.next()
        factor = 1 + step - version if seconds is None else seconds[i] * np.sum(1 / seconds)
        x = x + workers.shares[i] * factor * (y - before)
        workers.give(i, x, step + 1)
    return x


def ringleader(x, rounds: int, workers: Workers):
    n, left = len(SPEEDS), rounds
    table: dict[int, list] = {i: [] for i in range(n)}

    def step(x):
        return x + sum(workers.shares[i] * np.mean(table[i], axis=0) for i in range(n))

    while True:
        while not all(table.values()):
            if not left:
                return x
            left -= 1
            i, _, before, y = workers.next()
            table[i].append(y - before)
            if all(table.values()):
                x, due = step(x), {*range(n)} - {i}
            workers.give(i, x, 0)
        later: dict[int, list] = {i: [] for i in range(n)}
        while due:
            if not left:
                return x
            left -= 1
            i, _, before, y = workers.next()
            if i in due:
                table[i].append(y - before)
                x = step(x)
                due.remove(i)
            else:
                later[i].append(y - before)
            workers.give(i, x, 0)
        table = later


ONE = {"lr": LR, "in_flight": 6}

REFERENCES = {
    "fedbuff": (t.FedBuff(t.Nice(1), buffer=3, server_lr=0.7, steps=2, **ONE),
                partial(fedbuff, size=3, server_lr=0.7, power=0.5)),
    "fedasync": (t.FedAsync(t.Nice(1), alpha=0.4, power=0.8, steps=2, **ONE), partial(fedasync, alpha=0.4, power=0.8)),
    "mifa": (t.Mifa(t.Nice(1), **ONE), mifa),
    "ringmaster": (t.Ringmaster(t.Nice(1), threshold=4, **ONE), partial(ringmaster, threshold=4)),
    "rescaled-asgd": (t.RescaledAsgd(t.Nice(1), **ONE), rescaled),
    "rescaled-asgd of known times": (
        t.RescaledAsgd(t.Nice(1), seconds=SPEEDS, **ONE), partial(rescaled, seconds=SPEEDS)),
    "ringleader": (t.Ringleader(t.Nice(1), **ONE), ringleader),
}  # fmt: skip
"""Each algorithm with all clients at work, and an event loop with the paper's steps."""


@pytest.mark.tiers(quick=[], slow=["rescaled-asgd"])
@pytest.mark.parametrize("name", REFERENCES)
def test_the_event_loop_of_the_paper(name):
    algorithm, reference = REFERENCES[name]
    rounds = 40
    trace = t.run(algorithm, small(), rounds=rounds, devices=devices())
    steps = getattr(algorithm, "steps", None) or 1
    workers = Workers(np.zeros(3), steps)
    expected = reference(np.zeros(3), rounds, workers)
    np.testing.assert_allclose(trace.x, expected, rtol=1e-10, atol=1e-12)
    assert trace.frame["seconds"][-1] == pytest.approx(workers.now, abs=1e-4)
    events = rounds * getattr(algorithm, "buffer", 1)
    totals = trace.ledger.totals()
    assert totals["arrivals"] == totals["exchanges"] == totals["vectors_up"] == events
    assert totals["contacts"] == events + len(SPEEDS) - 1 and totals["queries_total"] == steps * events


@pytest.mark.slow
def test_fast_clients_count_more_unless_steps_are_rescaled():
    """Plain steps end near the minimum of sum_i f_i / tau_i, rescaled ones near that of f, up to O(lr)."""
    shares, _ = gradients()
    matrices, vectors = (np.asarray(part) for part in small().rows)
    weights = shares, 1 / (SPEEDS + LATENCY)
    best, fast = (np.linalg.solve(np.tensordot(w, matrices, 1), w @ vectors) for w in weights)
    options = {"lr": 1e-3, "in_flight": 6}
    algorithms = t.RescaledAsgd(t.Nice(1), **options), t.Ringmaster(t.Nice(1), threshold=10**6, **options)
    ends = [t.run(algorithm, small(), rounds=7_000, every=7_000, devices=devices()).x for algorithm in algorithms]
    assert np.linalg.norm(ends[0] - best) < 0.05 * np.linalg.norm(best - fast)
    assert np.linalg.norm(ends[1] - fast) < 0.05 * np.linalg.norm(best - fast)


FAULTS = {"none": None, "skip": t.Faults(0.3, "skip"), "repeat": t.Faults(0.3, "repeat")}


@pytest.mark.tiers(quick=[], longer=["mifa-repeat"], slow=["fedbuff-repeat"])
@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_engines_agree(name, faults):
    runs = [
        t.run(ASYNCHRONOUS[name], small(), rounds=8, seed=3, devices=devices(), faults=FAULTS[faults], engine=engine)
        for engine in ("compiled", "nodes")
    ]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-12)
    assert runs[0].ledger.totals() == runs[1].ledger.totals()


REPLY_BYTES = {"both": 2 * 8 + 1, "random": 2 + 2, "seeds": 3 * 8}
"""Of three numbers: two and their places of two bits; four bits each and a scale; all of them."""


@pytest.mark.tiers(quick=[], slow=["ringleader-both"])
@pytest.mark.parametrize("how", COMPRESSED)
@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_engines_agree_on_compressed_requests(name, how):
    options = {"rounds": 8, "seed": 3, "devices": devices(), "faults": t.Faults(0.3, "skip"), "exchange": COMPRESSED[how]}
    runs = [t.run(ASYNCHRONOUS[name], small(), engine=engine, **options) for engine in ("compiled", "nodes")]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-12)
    assert runs[0].ledger.totals() == runs[1].ledger.totals()
    totals = runs[0].ledger.totals()
    assert totals["bytes_up"] == totals["arrivals"] * REPLY_BYTES[how]


class Compressed(Workers):
    """The two largest numbers of what a client adds to h_i of its reply."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.memory = np.zeros((len(SPEEDS), 3))

    def next(self):
        i, version, before, y = super().next()
        self.memory[i] += top_two(y - before - self.memory[i])
        return i, version, before, before + self.memory[i]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedbuff", "ringmaster"])
def test_the_event_loop_with_error_feedback(name):
    algorithm, reference = REFERENCES[name]
    exchange = t.Exchange(up=t.codecs.TopK(count=2), feedback="ef21")
    trace = t.run(algorithm, small(), rounds=40, devices=devices(), exchange=exchange)
    expected = reference(np.zeros(3), 40, Compressed(np.zeros(3), getattr(algorithm, "steps", 1)))
    np.testing.assert_allclose(trace.x, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.tiers(quick=[], slow=["diana"])
@pytest.mark.parametrize("feedback", ["ef14", "ef21", "diana"])
def test_what_is_lost_leaves_the_memories_of_both_ends_as_they_were(feedback):
    codec = t.codecs.RandK(count=2) if feedback == "diana" else t.codecs.TopK(count=2)
    exchange = t.Exchange(up=codec, down=codec, feedback=feedback)
    options = {"devices": devices(), "faults": t.Faults(0.5, "skip"), "exchange": exchange}
    session = Session(ASYNCHRONOUS["fedbuff"], small(), rounds=12, **options)
    for _ in session.play():
        server, clients = session.progress.memories["train"], session.progress.clients.memory["train"]
        if feedback != "ef14":
            jax.tree.map(np.testing.assert_array_equal, server, clients)
    assert any(np.any(leaf != 0) for leaf in jax.tree.leaves((server, clients)))


RESUMED = {"mifa": None, "fedbuff": t.Exchange(up=t.codecs.TopK(count=2), down=t.codecs.Qsgd(bits=6), feedback="ef21")}


@pytest.mark.tiers(quick=[], slow=["fedbuff-nodes"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize("name", RESUMED)
def test_a_run_resumes_with_requests_in_flight(name, engine):
    def session():
        options = {"exchange": RESUMED[name], "devices": devices(), "engine": engine}
        return Session(ASYNCHRONOUS[name], small(), rounds=8, seed=1, every=1, **options)

    whole, stopped, resumed = session().run().trace, session(), session()
    chunks = stopped.play()
    while stopped.round < 3:
        stopped.step(1)
    chunks.close()
    resumed.restore(stopped.snapshot())
    again = resumed.run().trace
    np.testing.assert_array_equal(whole.x, again.x)
    np.testing.assert_array_equal(whole.columns["counts"], again.columns["counts"])


@pytest.mark.slow
def test_one_cohort_in_flight_is_fedavg():
    shared = {"rounds": 6, "seed": 2, "devices": devices()}
    one = t.run(t.FedBuff(t.Nice(3), lr=LR, steps=2, in_flight=3, power=0.7), small(), **shared)
    other = t.run(t.FedAvg(t.Nice(3), lr=LR, steps=2), small(), **shared)
    # Replies are added up in the order in which they come.
    np.testing.assert_allclose(one.x, other.x, rtol=1e-13)
    differing = {name for name, count in one.ledger.totals().items() if count != other.ledger.totals()[name]}
    assert differing <= {"available"} and one.frame["seconds"].equals(other.frame["seconds"])


@pytest.mark.slow
def test_without_devices_replies_come_in_the_order_of_the_requests():
    """Five requests are sent at the start and one in each round, of which the oldest is answered."""
    sent = sent_rounds(t.Nice(1), in_flight=6, rounds=20)
    assert sent == [max(0, number - 5) for number in range(1, 21)]


@t.record
class Watching(t.Algorithm):
    """Keeps who answered last, and when that was sent."""

    sampler: t.Sampler
    in_flight: int = t.static(default=6)

    @property
    def places(self):
        return self.in_flight

    def start(self, ask, x):
        def more(carry):
            ask.send(self.sampler, self.reply, x)
            return carry

        return ask.loop(self.in_flight - 1, more, x), jnp.zeros(2)

    def output(self, server):
        return server[0]

    def round(self, ask, server):
        ask.send(self.sampler, self.reply, server[0])
        replies = ask.next()
        return server[0], jnp.stack([replies.cohort.ids[0], replies.sent[0]]).astype(server[1].dtype)

    @t.on_client
    def reply(self, client, x):
        return t.Done(x)


def sent_rounds(sampler, in_flight: int, rounds: int) -> list[int]:
    """Return for the reply in each round the round in which it was sent."""
    session, seen = Session(Watching(sampler, in_flight), small(), rounds=rounds, every=1), []
    for _ in range(rounds + 1):
        session.step(1)
        seen.append(int(session.progress.server[1][1]))
    return seen[-rounds:]


@pytest.mark.slow
def test_nobody_has_two_requests():
    trace = t.run(Watching(t.Nice(1), 4), quadratic(), rounds=200, devices=t.Devices(seconds_per_query=0.1))
    assert trace.ledger.totals()["contacts"] == 203


BUSY = jnp.array([1, 4, 7, 7], "int32")
"""Clients 1 and 4 of seven, and two empty places."""


@pytest.mark.slow
def test_a_draw_is_uniform_among_the_clients_without_a_request():
    population = t.Population(7, in_flight=BUSY)
    keys = jax.random.split(jax.random.key(0), 20_000)
    cohorts = jax.vmap(lambda key: t.Nice(2).draw(None, key, population))(keys)
    assert bool(jnp.all(cohorts.active)) and np.allclose(cohorts.probability, 2 / 5)
    assert {*np.unique(np.asarray(cohorts.available)).tolist()} == {5}
    ids, counts = np.unique(np.sort(np.asarray(cohorts.ids), axis=1), axis=0, return_counts=True)
    assert [tuple(pair) for pair in ids.tolist()] == [*combinations([0, 2, 3, 5, 6], 2)]
    expected = len(keys) / 10
    # The 0.9999 quantile of chi-square with 9 degrees of freedom.
    assert np.sum((counts - expected) ** 2 / expected) < 33.7


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2])
def test_a_draw_is_uniform_where_few_of_many_clients_have_a_request(size):
    """Twice K clients are looked at first; in 1 % of the draws of one client, both of them have a request."""
    busy = jnp.array([3, 8, 15, 31], "int32")
    keys = jax.random.split(jax.random.key(2), 40_000)
    cohorts = jax.vmap(lambda key: t.Nice(size).draw(None, key, t.Population(32, in_flight=busy)))(keys)
    assert bool(jnp.all(cohorts.active)) and np.allclose(cohorts.probability, size / 28)
    ids, counts = np.unique(np.asarray(cohorts.ids), return_counts=True)
    assert ids.tolist() == sorted({*range(32)} - {*np.asarray(busy).tolist()})
    assert all(len({*row}) == size for row in np.asarray(cohorts.ids[:1000]).tolist())
    expected = len(keys) * size / 28
    # The 0.9999 quantile of chi-square with 27 degrees of freedom.
    assert np.sum((counts - expected) ** 2 / expected) < 63.2


@pytest.mark.longer
def test_fewer_free_clients_than_places():
    cohort = t.Nice(6).draw(None, jax.random.key(1), t.Population(7, in_flight=BUSY))
    assert sorted(np.asarray(cohort.ids)[np.asarray(cohort.active)].tolist()) == [0, 2, 3, 5, 6]
    np.testing.assert_allclose(np.asarray(cohort.probability)[np.asarray(cohort.active)], 1)


@pytest.mark.tiers(quick=[], slow=["sampler0"])
@pytest.mark.parametrize("sampler", [t.Independent(size=1.0, capacity=6), Available(t.Nice(1), probability=0.5)])
def test_other_samplers_leave_out_who_is_at_work(sampler):
    """A client with two requests would end the run with an error."""
    options = {"rounds": 60, "faults": t.Faults(missing="skip"), "devices": devices()}
    algorithm = t.Mifa(sampler, lr=0.01, in_flight=6)
    one, other = (t.run(algorithm, small(), engine=engine, **options) for engine in ("compiled", "nodes"))
    assert one.ledger.totals() == other.ledger.totals()


@pytest.mark.slow
def test_a_reply_after_the_deadline_is_not_used():
    limit = 1.0
    trace = t.run(t.Mifa(t.Nice(1), **ONE), small(), rounds=40, devices=devices(deadline=limit), faults=t.Faults(missing="skip"))
    workers, (shares, gradient) = Workers(np.zeros(3)), gradients()
    x, memory, now, events = np.zeros(3), np.zeros((6, 3)), 0.0, []
    took = np.minimum(LATENCY + SPEEDS, limit)
    for i in range(6):
        heapq.heappush(events, (took[i], i, x))
    arrived = 0
    for _ in range(40):
        now, i, before = heapq.heappop(events)
        if LATENCY + SPEEDS[i] <= limit:
            memory[i], arrived = -LR * gradient(i, before), arrived + 1
        x = x + shares @ memory
        heapq.heappush(events, (now + took[i], i, x))
    np.testing.assert_allclose(trace.x, x, rtol=1e-10)
    assert trace.ledger.totals()["arrivals"] == arrived < 40
    assert trace.frame["seconds"][-1] == pytest.approx(now, abs=1e-4) and workers.steps == 1


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    speeds=st.lists(st.floats(0, 1e3), min_size=6, max_size=6),
    loss=st.floats(0, 0.6),
    missing=st.sampled_from(["skip", "repeat"]),
    seed=st.integers(0, 2**31 - 1),
)
def test_whatever_the_speeds_and_losses_all_requests_are_accounted_for(speeds, loss, missing, seed):
    session = Session(
        ASYNCHRONOUS["fedbuff"], small(), rounds=10, seed=seed, faults=t.Faults(loss, missing), devices=t.Devices(speeds)
    ).run()
    totals, seconds = session.trace.ledger.totals(), session.trace.frame["seconds"].to_numpy()
    assert np.all(np.diff(seconds) >= 0) and totals["queries_total"] == 3 * 10 * 4
    left = int(np.sum(session.progress.flight.cohort.active))
    assert left == 3 and totals["drawn"] == 10 * 4 + left
    if missing == "skip":
        assert totals["contacts"] == totals["drawn"] and totals["arrivals"] <= 40
    else:
        assert totals["contacts"] >= totals["drawn"] and totals["arrivals"] == 40


@t.record
class Sending(t.Algorithm):
    """Sends twice a round to whom and what `way` says."""

    sampler: t.Sampler
    way: str = t.static()
    room: int = t.static(default=4)

    @property
    def places(self):
        return self.room

    def round(self, ask, x):
        if self.way == "next":
            ask.next()
        cohort = ask.draw(self.sampler)
        ask.send(cohort, self.reply, x)
        if self.way == "same":
            ask.send(cohort, self.reply, x)
        if self.way == "methods":
            ask.send(self.sampler, self.other, x)
        return x

    @t.on_client
    def reply(self, client, x):
        return t.Done(x)

    @t.on_client
    def other(self, client, x):
        return t.Done(x)


MISTAKES = {
    "a client in flight": (Sending(t.Nice(1), "same"), {}, "requests by round . were sent to clients that have one in flight"),
    "no place": (Sending(t.Nice(2), "more", 3), {}, "requests by round . found no place in flight: raise `places`"),
    "a large cohort": (Sending(t.Nice(3), "more", 2), {}, "3 requests are sent at once, but in_flight is 2"),
    "two methods": (Sending(t.Nice(1), "methods"), {}, "sends requests for reply and other"),
    "no places": (Sending(t.Nice(1), "more", 0), {}, "its `places` are 0"),
    "next first": (Sending(t.Nice(1), "next"), {}, "no request was sent|none was asked for"),
    "a sampler of all": (t.Mifa(t.Block([0, 0, 1, 1, 2, 2]), lr=0.1, in_flight=2), {}, "sampler Block draws from all"),
    "too few": (t.Mifa(t.Nice(4), lr=0.1, in_flight=3), {}, "in_flight is 3, but a draw has 4 clients"),
    "too many": (t.Mifa(t.Nice(1), lr=0.1, in_flight=7), {}, "in_flight is 7, but there are 6 clients"),
    "some of all": (t.Ringleader(t.Nice(1), lr=0.1, in_flight=3), {}, "Ringleader has all clients at work"),
    "first": (ASYNCHRONOUS["mifa"], {"devices": devices(first=1), "faults": t.Faults(missing="skip")}, "first is for exchanges"),
    "sums": (ASYNCHRONOUS["mifa"], {"aggregation": "sum", "engine": "nodes"}, "takes replies one after another"),
    "quality": (ASYNCHRONOUS["mifa"], {"metrics": ("variance",)}, "draws cannot be judged"),
}


@pytest.mark.tiers(everything=["no place", "a client in flight"])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    algorithm, options, sentence = MISTAKES[name]
    with pytest.raises(t.UserError, match=sentence):
        t.run(algorithm, small(), rounds=3, **options)


def test_a_solver_sends_no_requests():
    solver = t.solvers.AsCohortSolver(Sending(t.Full(), "more"))
    with pytest.raises(t.UserError, match="requests in flight are of the algorithm itself"):
        t.run(t.Sppm(t.Nice(2), solver, gamma=1.0), small(), rounds=1)
