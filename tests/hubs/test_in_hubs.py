"""Algorithms in hubs: by hand in NumPy, with the counts of hubs that are at work at once."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.helpers.centred import centred
from tests.helpers.commands import config, turnout
from turnout.accounting.ledger import SERVER
from turnout.core.seeds import Seeds
from turnout.engines import mesh
from turnout.engines.exchange.in_hubs import clients_of, hubs_as_clients, packed
from turnout.engines.hubs_ask import APART
from turnout.experiment.config import read
from turnout.experiment.describe import plan_for
from turnout.runs.hub_layout import with_hubs
from turnout.runs.session import Session
from turnout.runs.setup import bind
from turnout.testing.algorithms import CHECKS
from turnout.testing.case import Case

CLIENTS, DIMENSION, ROUNDS, INSIDE, SEED = 12, 4, 4, 3, 5
NUMBERS = 8 * DIMENSION
SITES = [0, 0, 0, 1, 1, 2, 2, 2, 2, 2, 3, 3]
"""The hub of each client: of 3, 2, 5 and 2 clients."""
HUBS = [np.flatnonzero(np.array(SITES) == hub) for hub in range(4)]
PATHS = [(site // 2, site) for site in SITES]
RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.uniform(0.5, 2.0, CLIENTS)
WEIGHTS /= WEIGHTS.sum()
SHARES = np.array([WEIGHTS[hub].sum() for hub in HUBS])
LR, STEPS = 0.02, 2


def problem() -> t.Quadratic:
    return t.Quadratic.of(*t.Quadratic.random(CLIENTS, DIMENSION, seed=1).rows, weights=WEIGHTS)


MATRICES, VECTORS = (np.asarray(part) for part in problem().rows)


def gradient(i: int, x):
    return np.asarray(jax.grad(lambda x: jnp.sum(problem().losses(x, jax.tree.map(lambda a: a[i : i + 1], problem().rows))))(x))


def played(algorithm, **options) -> t.Trace:
    return t.run(
        algorithm, problem(), **{"rounds": ROUNDS, "seed": SEED, "metrics": ("value",), "hubs": t.Hubs(of=SITES), **options}
    )


def links(trace) -> list[tuple]:
    return [tuple(int(link[name]) for name in SERVER) for link in trace.ledger.links()]


def local_steps(i: int, x):
    y = x
    for _ in range(STEPS):
        y = y - LR * gradient(i, y)
    return y - x


def hub_change(hub, x):
    """What federated averaging in a hub adds to x."""
    y = x
    for _ in range(INSIDE):
        y = y + sum(WEIGHTS[i] * local_steps(i, y) for i in hub) / WEIGHTS[hub].sum()
    return y - x


def mean_change(x):
    return sum(share * hub_change(hub, x) for share, hub in zip(SHARES, HUBS, strict=True))


FEDAVG = t.InHubs(t.FedAvg(t.Full(), lr=LR, steps=STEPS), rounds=INSIDE)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_hierarchical_federated_averaging_by_hand(engine):
    x = np.zeros(DIMENSION)
    for _ in range(ROUNDS):
        x = x + mean_change(x)
    np.testing.assert_allclose(played(FEDAVG, engine=engine).x, x, rtol=1e-11, atol=1e-12)


@pytest.mark.longer
def test_islands_of_diloco_by_hand():
    """The server takes steps of Nesterov's momentum along the mean of x - y_h."""
    x, momentum = np.zeros(DIMENSION), np.zeros(DIMENSION)
    for _ in range(ROUNDS):
        slope = -mean_change(x)
        momentum = 0.9 * momentum + slope
        x = x - 0.7 * (slope + 0.9 * momentum)
    outer = t.optimisers.Sgd(0.7, momentum=0.9, nesterov=True)
    np.testing.assert_allclose(played(replace(FEDAVG, server_optimiser=outer)).x, x, rtol=1e-10, atol=1e-11)


@pytest.mark.slow
def test_counts_of_hubs_at_work_at_once():
    """Exchanges are those of one hub; messages and queries are of all; the links above hubs are passed once a round."""
    for engine in ("compiled", "nodes"):
        trace = played(FEDAVG, engine=engine, hubs=t.Hubs(of=PATHS))
        totals = trace.ledger.totals()
        assert totals["exchanges"] == totals["cohorts"] == totals["queries_slowest"] / STEPS == ROUNDS * INSIDE
        assert totals["contacts"] == totals["arrivals"] == totals["queries_total"] / STEPS == CLIENTS * ROUNDS * INSIDE
        assert totals["bytes_up"] == totals["bytes_down"] == CLIENTS * ROUNDS * INSIDE * NUMBERS
        assert links(trace) == [(ROUNDS, k * ROUNDS, k * ROUNDS, k * ROUNDS * NUMBERS, k * ROUNDS * NUMBERS) for k in (4, 2)]
        assert t.Hierarchical(c1=0.1, c2=1.0).cost(totals) == pytest.approx(ROUNDS * (0.1 * INSIDE + 1))


@pytest.mark.slow
def test_a_round_takes_as_long_as_the_slowest_hub_and_the_link():
    """Hub 1 has the slowest client, and hub 2 the slowest link inside; what counts is the sum of a hub's own exchanges."""
    seconds = np.ones(CLIENTS) * 0.01
    seconds[4], latency = 0.1, np.zeros(CLIENTS)
    latency[5] = 0.15
    devices = t.Devices(seconds_per_query=seconds, latency=latency)
    hubs = t.Hubs(of=SITES, latency=0.5, bandwidth_up=1000.0)
    trace = played(FEDAVG, devices=devices, hubs=hubs)
    inside = max(STEPS * 0.1, STEPS * 0.01 + 0.15)
    expected = ROUNDS * (INSIDE * inside + 0.5 + NUMBERS / 1000)
    np.testing.assert_allclose(trace.ledger.totals()["seconds"], expected, rtol=1e-9)
    np.testing.assert_allclose(trace.ledger.links()[0]["seconds"], ROUNDS * (0.5 + NUMBERS / 1000), rtol=1e-9)


@pytest.mark.slow
def test_one_hub_of_all_clients_is_the_flat_run():
    flat = t.run(FEDAVG.algorithm, problem(), rounds=ROUNDS * INSIDE, seed=SEED, metrics=("value",))
    np.testing.assert_allclose(played(FEDAVG, hubs=t.Hubs(1)).x, flat.x, rtol=1e-12)


@pytest.mark.longer
def test_proximal_points_of_hubs_in_parallel_contract_at_the_rate_of_the_prox():
    """With exact proxes x -> sum_h Lambda_h prox_{gamma f_h}(x) shrinks distances by 1 / (1 + gamma mu) or more."""
    gamma, x = 0.5, np.zeros(DIMENSION)
    hessians = [np.stack([np.asarray(jax.jacobian(lambda x, i=i: jax.grad(loss(i))(x))(x)) for i in hub]) for hub in HUBS]
    means = [np.tensordot(WEIGHTS[hub] / WEIGHTS[hub].sum(), each, 1) for hub, each in zip(HUBS, hessians, strict=True)]
    slopes = [sum(WEIGHTS[i] * gradient(i, np.zeros(DIMENSION)) for i in hub) / WEIGHTS[hub].sum() for hub in HUBS]
    solve = [np.linalg.inv(np.eye(DIMENSION) + gamma * mean) for mean in means]
    linear = sum(share * one for share, one in zip(SHARES, solve, strict=True))
    shift = -gamma * sum(share * one @ slope for share, one, slope in zip(SHARES, solve, slopes, strict=True))
    algorithm = t.InHubs(t.Sppm(t.Full(), t.solvers.Newton(), gamma=gamma, inner=1))
    fixed = np.linalg.solve(np.eye(DIMENSION) - linear, shift)
    rate = 1 / (1 + gamma * min(np.linalg.eigvalsh(mean).min() for mean in means))
    for rounds in (1, 2, 6):
        x = np.zeros(DIMENSION)
        for _ in range(rounds):
            x = linear @ x + shift
        found = played(algorithm, rounds=rounds).x
        np.testing.assert_allclose(found, x, rtol=1e-8, atol=1e-9)
        assert np.linalg.norm(found - fixed) <= rate**rounds * np.linalg.norm(fixed) * (1 + 1e-8)


def loss(i: int):
    return lambda x: jnp.sum(problem().losses(x, jax.tree.map(lambda a: a[i : i + 1], problem().rows)))


@pytest.mark.tiers(quick=[], slow=["independent"])
@pytest.mark.parametrize("sampler", [t.Nice(2), t.Independent(size=4.0)], ids=["nice", "independent"])
def test_draws_in_a_hub_are_unbiased_for_its_own_mean(sampler):
    """E sum_{i drawn} (weight in the hub / p_i) r_i = sum_{i in h} (lambda_i / Lambda_h) r_i for each r, packed or not."""
    population = with_hubs(problem(), t.Hubs(of=SITES)).population
    bound, draws = bind(sampler, problem()), 20_000
    for hub, members in enumerate(HUBS):
        own = clients_of(population, jnp.asarray(hub))

        def weights(key, own=own):
            cohort = packed(bound.draw(bound.start(own), key, own), 5)
            return jnp.zeros(CLIENTS).at[cohort.ids].add(jnp.where(cohort.active, cohort.weight, 0))

        seen = np.asarray(jax.vmap(weights)(jax.random.split(jax.random.key(hub), draws)))
        expected = np.where(np.isin(np.arange(CLIENTS), members), WEIGHTS / SHARES[hub], 0)
        error = seen.std(0) / np.sqrt(draws)
        assert np.all(np.abs(seen.mean(0) - expected) <= 5 * error + 1e-12)


@pytest.mark.longer
def test_hubs_weigh_what_their_clients_do():
    cohort, first = hubs_as_clients(with_hubs(problem(), t.Hubs(of=SITES)).population, 4)
    np.testing.assert_allclose(cohort.share, SHARES, rtol=1e-12)
    assert first.tolist() == [0, 3, 5, 10] and cohort.active.all()


@pytest.mark.slow
def test_a_hub_that_draws_nobody_sends_nothing():
    sampler = t.Independent(size=0.7)
    trace = played(t.InHubs(t.FedAvg(sampler, lr=LR)), rounds=1)
    population = with_hubs(problem(), t.Hubs(of=SITES)).population
    bound, changes = bind(sampler, problem()), {}
    for hub in range(4):
        own = clients_of(population, jnp.asarray(hub))
        cohort = bound.draw(bound.start(own), Seeds.of(SEED).draw(1, APART * hub), own)
        ids = np.asarray(cohort.ids)[np.asarray(cohort.active)]
        if ids.size:
            changes[hub] = sum(WEIGHTS[i] * -LR * gradient(i, np.zeros(DIMENSION)) for i in ids) / WEIGHTS[ids].sum()
    assert 0 < len(changes) < 4
    expected = sum(SHARES[hub] * change for hub, change in changes.items()) / sum(SHARES[hub] for hub in changes)
    np.testing.assert_allclose(trace.x, expected, rtol=1e-10)
    assert links(trace) == [(1, 4, len(changes), 4 * NUMBERS, len(changes) * NUMBERS)]


@pytest.mark.tiers(quick=[], slow=["ef14"])
@pytest.mark.parametrize("feedback", ["none", "ef14", "ef21", "diana"])
def test_a_codec_that_loses_nothing_changes_nothing_but_what_passes(feedback):
    whole = played(FEDAVG)
    same = played(replace(FEDAVG, up=t.codecs.Identity(), feedback=feedback))
    np.testing.assert_allclose(same.x, whole.x, rtol=1e-12)
    assert links(same) == links(whole)


@pytest.mark.slow
def test_feedback_of_hubs_mends_what_the_long_link_loses():
    """One number of four: with ef21 the run comes to the point of the run without a codec, and without memory it does not."""
    fedavg, coarse = t.InHubs(t.FedAvg(t.Full(), lr=LR, steps=STEPS), rounds=INSIDE), t.codecs.TopK(count=1)
    limit = played(fedavg, rounds=600).x
    gaps = [np.linalg.norm(played(replace(fedavg, up=coarse, feedback=kind), rounds=600).x - limit) for kind in ("ef21", "none")]
    assert gaps[0] < 1e-9 * np.linalg.norm(limit) and gaps[1] > 1e-4 * np.linalg.norm(limit)


@pytest.mark.slow
def test_quantised_on_both_links():
    """Hier-Local-QSGD: codecs of the exchange inside hubs, another one above, each counted with its own size."""
    algorithm = replace(FEDAVG, up=t.codecs.Qsgd(bits=2))
    trace = played(algorithm, exchange=t.Exchange(up=t.codecs.Qsgd(bits=8)))
    (link,), totals = trace.ledger.links(), trace.ledger.totals()
    fine, coarse = totals["bytes_up"] / totals["arrivals"], link["server_bytes_up"] / link["server_arrivals"]
    assert coarse < fine < NUMBERS and link["server_arrivals"] == 4 * ROUNDS


@pytest.mark.longer
def test_quantisation_above_hubs_is_unbiased():
    """The mean of first rounds over many seeds is the round without a codec."""
    exact = played(FEDAVG, rounds=1).x
    swept = t.sweep(
        replace(FEDAVG, up=t.codecs.Qsgd(bits=2)),
        problem(),
        {},
        seeds=range(400),
        rounds=1,
        metrics=("value",),
        hubs=t.Hubs(of=SITES),
    )
    found = np.stack([trace.x for trace in swept.traces])
    assert np.all(np.abs(found.mean(0) - exact) <= 5 * found.std(0) / 20) and np.any(found.std(0) > 0)


ALGORITHMS = {
    "fedavg": t.InHubs(t.FedAvg(t.Nice(2), lr=LR, steps=STEPS), rounds=INSIDE),
    "scaffold": t.InHubs(t.Scaffold(t.Nice(2), lr=LR, steps=STEPS), rounds=INSIDE),
    "sppm": t.InHubs(t.Sppm(t.Nice(2), t.solvers.Bfgs(), gamma=0.5, inner=3), rounds=2),
    "coded": t.InHubs(
        t.FedAvg(t.Independent(size=6.0), lr=LR),
        rounds=2,
        server_optimiser=t.optimisers.FedAdam(0.1),
        up=t.codecs.TopK(count=1),
        feedback="ef21",
    ),
}
ONE_BY_ONE = ("parameters_stay_finite", "compiles_once", "resumes_to_the_bit", "goes_on_to_the_bit")


class HubCase(Case):
    def session(self, *arguments, **options):
        return super().session(*arguments, **{"hubs": t.Hubs(of=SITES), "metrics": ("value",), **options})


@pytest.mark.tiers(
    quick=[],
    longer=["sppm-resumes_to_the_bit", "sppm-goes_on_to_the_bit"],
    slow=["sppm-parameters_stay_finite", "sppm-compiles_once"],
)
@pytest.mark.parametrize("check", ONE_BY_ONE)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_conformance(name, check):
    CHECKS[check](HubCase(ALGORITHMS[name], problem()))


@pytest.mark.tiers(quick=[], slow=["coded", "sppm"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_engines_and_devices_agree(name):
    one, nodes, two = (played(ALGORITHMS[name], **more) for more in ({}, {"engine": "nodes"}, {"mesh": 2}))
    for other in (nodes, two):
        np.testing.assert_allclose(one.x, other.x, rtol=1e-9, atol=1e-11)
        assert one.ledger == other.ledger


EVEN = {
    "fedavg": ALGORITHMS["fedavg"],
    "scaffold": ALGORITHMS["scaffold"],
    "memory": t.InHubs(t.FedAvg(t.Full(), lr=LR), rounds=2, up=t.codecs.TopK(count=1), feedback="ef21"),
    "nobody": t.InHubs(t.FedAvg(t.Independent(size=0.7), lr=LR), rounds=2),
}


@pytest.mark.tiers(quick=[], slow=["fedavg"])
@pytest.mark.parametrize("name", EVEN)
def test_a_device_plays_the_hubs_whose_clients_it_has(name):
    """Three hubs on each of two devices: no number travels between devices inside a hub, and the run is the same."""
    options = {"hubs": t.Hubs(6), "devices": t.Devices(latency=0.01, seconds_per_query=np.linspace(0.1, 0.3, CLIENTS))}
    one, two = (played(EVEN[name], mesh=mesh, **options) for mesh in (1, 2))
    np.testing.assert_allclose(one.x, two.x, rtol=1e-10, atol=1e-12)
    assert one.ledger == two.ledger


@pytest.mark.slow
def test_devices_send_each_other_what_hubs_found_alone():
    """Inside hubs no sum over devices is taken: all that travels is the six changes, once a round of the server."""
    sent = {}
    for name, hubs in {"apart": t.Hubs(6), "across": t.Hubs(of=SITES)}.items():
        engine = Session(ALGORITHMS["fedavg"], problem(), rounds=2, metrics=("value",), hubs=hubs, mesh=2).engine
        arguments = engine._inputs, engine.algorithm, engine.begin(), 2, 2, 1
        options = {"sites": engine.sites, "metrics": engine.metrics, "mesh": engine.mesh}
        text = mesh._advance.compiled(True).lower(*arguments, **options).compile().as_text()
        lines = [line.split("all-reduce(")[0] for line in text.splitlines() if "all-reduce(" in line]
        sent[name] = {shape for line in lines for shape in re.findall(r"f64\[([\d,]*)\]", line)} - {""}
    assert sent == {"apart": {f"6,{DIMENSION}"}, "across": {str(DIMENSION)}}


@pytest.mark.tiers(quick=[], slow=["repeat"])
@pytest.mark.parametrize("missing", ["skip", "repeat"])
def test_lost_replies_in_hubs(missing):
    runs = [played(ALGORITHMS["fedavg"], faults=t.Faults(0.5, missing), engine=engine) for engine in ("compiled", "nodes")]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-10)
    assert runs[0].ledger == runs[1].ledger
    np.testing.assert_array_equal(np.array_equal(runs[0].x, played(ALGORITHMS["fedavg"]).x), missing == "repeat")


@pytest.mark.longer
def test_a_hub_that_lies_is_bounded_as_a_client_is():
    """The robust mean of replies is that of hubs too: with the median the server takes the middle hub in each entry."""
    trace = played(t.InHubs(t.FedAvg(t.Full(), lr=LR)), rounds=1, hubs=t.Hubs(3), aggregation=t.CoordinateMedian())
    one, found = t.CoordinateMedian(), []
    for hub in np.split(np.arange(CLIENTS), 3):
        changes = jnp.stack([-LR * gradient(i, np.zeros(DIMENSION)) for i in hub])
        found.append(one.centre(changes, jnp.asarray(WEIGHTS[hub] / WEIGHTS[hub].sum())))
    weights = np.array([WEIGHTS[hub].sum() for hub in np.split(np.arange(CLIENTS), 3)])
    np.testing.assert_allclose(trace.x, one.centre(jnp.stack(found), jnp.asarray(weights)), rtol=1e-10)


@pytest.mark.slow
def test_sums_suffice_and_encrypted_ones_are_the_same():
    plain, hidden = (played(FEDAVG, engine="nodes", aggregation=how) for how in ("plain", "encrypted"))
    np.testing.assert_allclose(plain.x, hidden.x, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedavg", "sppm"])
def test_a_description_foretells_both_links(name):
    options = {"hubs": t.Hubs(4)}
    plan = plan_for(ALGORITHMS[name], problem(), seeds=Seeds.of(SEED), rounds=ROUNDS, **options).totals()
    totals = played(ALGORITHMS[name], **options).ledger.totals()
    for event in (*SERVER, "exchanges", "contacts", "queries_slowest", "queries_total", "draws_random"):
        assert plan[event].least == totals[event], event


@t.record
class Idle(t.Algorithm):
    """Has hubs work, and does not say what they do."""

    sampler: t.Sampler
    works_in_hubs = True

    def round(self, ask, x):
        return ask.in_hubs((3, 2, 5, 2), x, x)[0].mean()


REFUSED = {
    "idle": (lambda: played(Idle(t.Full())), r"Idle has no in_hub\(self, ask, key, message, state\): write what a hub does"),
    "no hubs": (lambda: played(FEDAVG, hubs=None), "InHubs works in hubs, and there are none: give hubs"),
    "learns": (lambda: played(t.InHubs(t.FedAvg(t.Independent(t.KVib(), size=4.0), lr=LR))), "a hub sees its own: take one"),
    "block": (lambda: played(t.InHubs(t.FedAvg(t.Block(), lr=LR))), "Block draws from all clients, and a hub has its own"),
    "available": (
        lambda: played(t.InHubs(t.FedAvg(t.Available(t.Nice(2), probability=0.5), lr=LR))),
        "Available draws from all clients, and a hub has its own",
    ),
    "flights": (lambda: played(t.InHubs(t.FedAsync(t.Nice(1), lr=LR, in_flight=2))), "FedAsync does not run inside hubs"),
    "models": (lambda: played(t.InHubs(t.Ditto(t.Nice(1), lr=LR, lam=1.0, own_lr=LR))), "Ditto does not run inside hubs"),
    "hessian": (
        lambda: played(replace(FEDAVG, server_optimiser=t.optimisers.Oasis(0.1))),
        "Oasis cannot be its optimiser: take another",
    ),
    "draws": (lambda: played(FEDAVG, metrics=("variance",)), "metrics of the draws are about cohorts that the server"),
    "privacy": (
        lambda: played(ALGORITHMS["fedavg"], privacy=t.Privacy(clip=1.0, noise_multiplier=1.0, delta=1e-5)),
        r"\[privacy\] accounts for cohorts that the server draws",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_mistakes_are_told(name):
    make, sentence = REFUSED[name]
    with pytest.raises(t.UserError, match=sentence):
        make()


@pytest.mark.slow
def test_a_configuration_has_the_algorithm_inside(tmp_path):
    inside = {"kind": "fedavg", "lr": 0.1}
    outer = {"kind": "in-hubs", "rounds": 2, "up": "qsgd", "algorithm": inside, "server_optimiser": {"kind": "sgd", "lr": 1.0}}
    file, again = (
        config(tmp_path, sampler={"kind": "nice", "size": 1}, algorithm=outer, hubs={"count": 4}),
        tmp_path / "again.toml",
    )
    experiment = read(file)
    assert isinstance(experiment.algorithm, t.InHubs) and experiment.algorithm.sampler == t.Nice(1)
    again.write_text(experiment.to_toml())
    assert read(again).algorithm == experiment.algorithm
    assert turnout("run", file, "--out", tmp_path / "out")[0] == 0
    code, said, _ = turnout("describe", file)
    assert code == 0 and "hubs and" in said


def part(clients) -> t.Problem:
    """The problem `centred` with some of its clients."""
    whole = centred()
    ranges = [np.arange(*whole.offsets[i : i + 2]) for i in clients]
    rows = jax.tree.map(lambda leaf: leaf[np.concatenate(ranges)], whole.rows)
    return replace(whole, rows=rows, offsets=np.cumsum([0, *map(len, ranges)]), population=t.Population(count=len(clients)))


@pytest.mark.tiers(quick=[], slow=["nodes"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
def test_statistics_are_those_of_each_hub_and_then_their_mean(engine):
    """Each hub goes on from the server's, not from what another hub found, and its own come back with its parameters."""
    hubs, fedavg, options = [[0, 1, 2], [3], [4, 5]], t.FedAvg(t.Full(), lr=0.05, steps=2), {"metrics": ("value",)}
    alone = [t.run(fedavg, part(own), rounds=2, **options).x for own in hubs]
    expected = jax.tree.map(lambda *leaves: sum(len(own) / 6 * leaf for own, leaf in zip(hubs, leaves, strict=True)), *alone)
    trace = t.run(t.InHubs(fedavg, rounds=2), centred(), rounds=1, hubs=t.Hubs(of=[0, 0, 0, 1, 2, 2]), engine=engine, **options)
    assert trace.x.keys() == expected.keys() and centred().statistics
    for name, leaf in expected.items():
        np.testing.assert_allclose(trace.x[name], leaf, rtol=1e-10, atol=1e-12)
    (link,), whole = trace.ledger.links(), sum(leaf.size for leaf in expected.values())
    assert link["server_bytes_up"] == link["server_bytes_down"] == 3 * 8 * whole
