"""Adapters whose ranks differ between clients: NumPy loops of small arrays, what is sent, and the nearest matrix of a rank."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from tests.problems.test_adapters import ALPHA, INPUTS, LR, OUTPUTS, ROUNDS, STEPS, A, B, first, linear, played, remote
from turnout.core.messages import payload
from turnout.engines import nodes
from turnout.engines.groups.singular import factors
from turnout.io.serialization import decode

RANK, RANKS = 3, (1, 3, 2)
SHARES = np.asarray(linear().population.weights)
BIAS = "layer.bias"


def adapted(trained="both", *groups, rank=RANK, ranks=RANKS, problem=None) -> t.Grouped:
    adapter = t.Adapter("layer.weight", rank, ALPHA, trained=trained, ranks=ranks)
    return t.Grouped.of(problem or linear(), adapter, *groups)


def local(i, x, rank, moving, scale=ALPHA / RANK):
    """Return A [rank, inputs], B [outputs, rank] and the bias of client i after its steps, by hand."""
    problem = linear()
    features, targets = (leaf[slice(*problem.offsets[i : i + 2])] for leaf in problem.rows)
    a, b, bias = x[A][:rank].copy(), x[B][:, :rank].copy(), x[BIAS].copy()
    for _ in range(STEPS):
        weight = x["layer.weight"] + scale * b @ a
        errors = features @ weight.T + bias - targets
        slope = scale * (errors.T @ features / len(targets) + 0.1 * weight)
        step = {A: b.T @ slope, B: slope @ a.T, BIAS: errors.mean(0)}
        a, b, bias = (leaf - LR * step[name] * (name in moving) for name, leaf in ((A, a), (B, b), (BIAS, bias)))
    return a, b, bias


def zero_padded(x, moving):
    """The run in which a client leaves the rows of A and the columns of B that it does not have as they are."""
    for number in range(ROUNDS):
        new = {name: leaf.copy() for name, leaf in x.items()}
        for i, (rank, share) in enumerate(zip(RANKS, SHARES, strict=True)):
            a, b, bias = local(i, x, rank, moving[number % len(moving)])
            new[A][:rank] += share * (a - x[A][:rank])
            new[B][:, :rank] += share * (b - x[B][:, :rank])
            new[BIAS] += share * (bias - x[BIAS])
        x = new
    return x


MOVING = {"both": [(A, B, BIAS)], "B": [(B, BIAS)], "alternating": [(B, BIAS), (A, BIAS)]}


@pytest.mark.tiers(quick=[], longer=["both-compiled"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize("trained", MOVING)
def test_a_run_with_replies_padded_with_zeros_is_the_one_by_hand(trained, engine):
    trace = played(adapted(trained), engine=engine)
    for name, leaf in zero_padded(first(adapted(trained)), MOVING[trained]).items():
        np.testing.assert_allclose(trace.x[name], leaf, rtol=1e-10, atol=1e-12, err_msg=name)


def products(x, rank):
    """Return sum_i lambda_i B_i A_i after the local steps, by hand, and the mean of the biases."""
    ends = [local(i, x, own, (A, B, BIAS), ALPHA / rank) for i, own in enumerate(np.minimum(RANKS, rank).tolist())]
    return sum(s * b @ a for s, (a, b, _) in zip(SHARES, ends, strict=True)), SHARES @ np.array([bias for *_, bias in ends])


@pytest.mark.tiers(quick=[], longer=["2-compiled"])
@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize("rank", [2, 3])
def test_a_run_by_singular_values_is_the_one_by_hand(rank, engine):
    problem = adapted("svd", rank=rank, ranks=np.minimum(RANKS, rank).tolist())
    x = first(problem)
    for _ in range(ROUNDS):
        mean, bias = products(x, rank)
        u, s, vt = np.linalg.svd(mean)
        signs = [np.sign(row[np.argmax(np.abs(row))]) for row in vt[:rank]]
        x |= {A: vt[:rank] * np.array(signs)[:, None], B: u[:, :rank] * s[:rank] * signs, BIAS: bias}
    trace = played(problem, engine=engine)
    for name, leaf in x.items():
        np.testing.assert_allclose(trace.x[name], leaf, rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.tiers(longer=["3"], everything=["1", "2"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_singular_values_leave_out_the_smallest_of_the_mean_of_products(rank):
    """Eckart and Young: no matrix of rank r is nearer than the root of the sum of the other singular values squared."""
    ranks = np.minimum(RANKS, rank).tolist()
    x = first(adapted("svd", rank=rank, ranks=ranks))
    x[B] = np.random.default_rng(0).normal(size=x[B].shape)
    left_out = np.linalg.svd(products(x, rank)[0], compute_uv=False)[rank:]
    bias = t.averaging_bias(t.FedAvg(t.Full(), lr=LR, steps=STEPS), adapted("svd", rank=rank, ranks=ranks), x)
    np.testing.assert_allclose(bias, ALPHA / rank * np.sqrt(np.sum(left_out**2)), rtol=1e-8, atol=1e-13)
    assert (bias > 1e-3) == (rank < min(OUTPUTS, INPUTS))


@pytest.mark.longer
def test_the_bias_of_padded_replies_is_that_by_hand():
    algorithm, x = t.FedAvg(t.Full(), lr=LR, steps=STEPS), first(adapted())
    ends = [local(i, x, rank, (A, B, BIAS)) for i, rank in enumerate(RANKS)]
    mean = {name: x[name].copy() for name in (A, B)}
    for rank, share, (a, b, _) in zip(RANKS, SHARES, ends, strict=True):
        mean[A][:rank] += share * (a - x[A][:rank])
        mean[B][:, :rank] += share * (b - x[B][:, :rank])
    own = sum(share * b @ a for share, (a, b, _) in zip(SHARES, ends, strict=True))
    expected = ALPHA / RANK * np.linalg.norm(own - mean[B] @ mean[A])
    np.testing.assert_allclose(t.averaging_bias(algorithm, adapted()), expected, rtol=1e-8)


@pytest.mark.longer
def test_the_nearest_matrix_has_new_rows_where_singular_values_are_zero():
    generator = np.random.default_rng(1)
    product = np.outer(generator.normal(size=5), generator.normal(size=4))
    rest = generator.normal(size=(3, 4))
    with jax.enable_x64(True):
        a, b = (np.asarray(leaf) for leaf in factors(jnp.asarray(product), jnp.asarray(rest)))
        whole = [np.asarray(leaf) for leaf in factors(jnp.zeros((5, 4)), jnp.asarray(rest))]
    np.testing.assert_allclose(b @ a, product, rtol=1e-12)
    np.testing.assert_array_equal(a[1:], rest[1:])
    np.testing.assert_array_equal(b[:, 1:], 0)
    np.testing.assert_array_equal(whole[0], rest)
    assert not whole[1].any()


@pytest.mark.tiers(quick=[], longer=["stacked"])
@pytest.mark.parametrize("trained", ["both", "B", "alternating", "stacked"])
def test_equal_ranks_are_the_run_with_one_rank(trained):
    one, other = (played(adapted(trained, ranks=ranks)) for ranks in (None, [RANK] * 3))
    assert one.ledger.totals() == other.ledger.totals()
    for name, leaf in one.x.items():
        np.testing.assert_allclose(other.x[name], leaf, rtol=1e-12, atol=1e-14)


WHOLE = OUTPUTS * INPUTS
SENT = {
    "both": ([r * (INPUTS + OUTPUTS) + OUTPUTS for r in RANKS],) * 2,
    "B": ([r * OUTPUTS + OUTPUTS for r in RANKS],) * 2,
    "stacked": ([r * (INPUTS + OUTPUTS) + OUTPUTS + WHOLE for r in RANKS], [r * (INPUTS + OUTPUTS) + OUTPUTS for r in RANKS]),
    "svd": ([r * (INPUTS + OUTPUTS) + OUTPUTS for r in RANKS],) * 2,
}
"""Numbers that each client is sent and sends back."""


@pytest.mark.tiers(quick=[], slow=["svd"])
@pytest.mark.parametrize("trained", SENT)
def test_a_client_is_sent_and_sends_the_rows_that_it_has(trained, monkeypatch):
    """By shapes, by the ledgers of both engines, and by the bodies of requests and replies."""
    bodies, answer = {}, nodes.NodesAsk._answer

    def heard(self, request, lost):
        reply = answer(self, request, lost)
        pair = bodies.setdefault(request.number, ([], []))
        for sizes, body in zip(pair, (request.body, reply), strict=True):
            sizes.append(payload(decode(body, self.job.start)[0]))
        return reply

    monkeypatch.setattr(nodes.NodesAsk, "_answer", heard)
    traces = [played(adapted(trained), engine=engine) for engine in ("compiled", "nodes")]
    down, up = SENT[trained]
    assert bodies == {i: ([8 * down[i]] * ROUNDS, [8 * up[i]] * ROUNDS) for i in range(3)}
    for trace in traces:
        totals = trace.ledger.totals()
        assert (totals["bytes_down"], totals["bytes_up"]) == (8 * ROUNDS * sum(down), 8 * ROUNDS * sum(up))
        assert totals["contacts"] == totals["arrivals"] == 3 * ROUNDS


@pytest.mark.tiers(quick=[], longer=["compiled-plain"])
@pytest.mark.parametrize(("engine", "aggregation"), [("compiled", "plain"), ("nodes", "plain"), ("nodes", "sum")])
def test_the_clock_knows_the_size_of_each_reply(engine, aggregation):
    speeds = np.array([1.0, 8.0, 8.0])
    devices = t.Devices(bandwidth_up=speeds.tolist())
    trace = played(adapted(), engine=engine, devices=devices, aggregation=aggregation)
    assert trace.ledger.totals()["seconds"] == ROUNDS * np.max(8 * np.array(SENT["both"][1]) / speeds)


@pytest.mark.longer
def test_replies_that_are_no_differences_are_sent_whole():
    totals = t.run(t.Scaffold(t.Full(), lr=0.05, steps=2), adapted(), rounds=1).ledger.totals()
    whole = RANK * (INPUTS + OUTPUTS) + OUTPUTS
    assert totals["bytes_up"] == totals["bytes_down"] == 3 * 8 * 2 * whole


@pytest.mark.slow
def test_clients_with_states_are_sent_every_row():
    """The own model of a client is drawn to all rows of the parameters."""
    ditto = t.Ditto(t.Nice(2), lr=0.1, own_lr=0.1, lam=0.5)
    one, other = (t.run(ditto, adapted(), rounds=4, engine=engine) for engine in ("compiled", "nodes"))
    np.testing.assert_allclose(one.metrics["value"], other.metrics["value"], rtol=1e-10)
    assert one.ledger.totals()["bytes_up"] == 4 * 2 * 8 * (RANK * (INPUTS + OUTPUTS) + OUTPUTS)


@pytest.mark.slow
def test_noise_of_clients_is_on_whole_replies():
    privacy = t.Privacy(clip=1.0, noise_multiplier=0.5, delta=1e-5, model="local", seed=0)
    traces = [played(adapted(), engine=engine, privacy=privacy) for engine in ("compiled", "nodes")]
    assert traces[0].ledger.totals()["bytes_up"] == ROUNDS * 3 * 8 * (RANK * (INPUTS + OUTPUTS) + OUTPUTS)
    for name, leaf in traces[0].x.items():
        np.testing.assert_allclose(traces[1].x[name], leaf, rtol=1e-10, atol=1e-12)


@pytest.mark.tiers(quick=[], longer=["both"])
@pytest.mark.parametrize("trained", ["both", "svd"])
def test_clients_in_numpy_play_the_same_run(trained):
    one, other = played(adapted(trained, problem=remote()), engine="nodes"), played(adapted(trained))
    for name in other.x:
        np.testing.assert_allclose(one.x[name], other.x[name], rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.longer
def test_curvature_is_that_of_what_a_client_has():
    """A Newton step of the one client that takes part moves no row that it does not have."""
    problem = adapted(ranks=[2, 2, 2])
    algorithm = t.FedProxSppm(t.Full(), gamma=0.5, solver=t.client_solvers.NewtonCg())
    start = first(problem) | {B: np.random.default_rng(0).normal(size=(OUTPUTS, RANK))}
    trace = t.run(algorithm, problem, rounds=2, start=start)
    np.testing.assert_allclose(trace.x[A][2], start[A][2], rtol=1e-12)
    np.testing.assert_allclose(trace.x[B][:, 2], start[B][:, 2], rtol=1e-12)
    assert np.abs(trace.x[A][:2] - start[A][:2]).max() > 1e-3


BAD = {
    "count": (lambda: adapted(ranks=[1, 2]), "Adapter.ranks has 2 ranks for 3 clients: give each client one"),
    "above": (lambda: adapted(ranks=[1, 2, 4]), "a client of Adapter.ranks has the rank 4, above rank = 3: raise rank"),
    "zero": (lambda: adapted(ranks=[0, 2, 3]), "Adapter.ranks"),
    "replies": (
        lambda: t.run(t.MbGd(t.Full(), lr=0.1), adapted("svd"), rounds=1),
        "replies of MbGd are no differences of parameters, from which the server takes products and their singular values",
    ),
    "personal": (
        lambda: played(adapted("svd", t.Personal("*.lora_B", lr=0.1))),
        "the server takes singular values of products, and layer.weight.lora_B is not sent: leave it out of the other groups",
    ),
    "encrypted": (
        lambda: played(adapted("svd"), engine="nodes", aggregation="encrypted"),
        "of its call 'train' .* the server looks at each reply",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_told(name):
    make, sentence = BAD[name]
    with pytest.raises(t.UserError, match=sentence):
        make()
