"""Compressed exchanges: memory, lost replies, sums, privacy and costs, against programs in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import turnout as t
from tests.helpers.examples import ALGORITHMS, CODECS, PROBLEMS, small
from turnout.codecs.parts import Direction, Shape
from turnout.experiment.describe import plan_of
from turnout.runs.session import Session
from turnout.testing.algorithms import count_requests
from turnout.testing.case import Case

C = t.codecs
FEEDBACK = ("none", "ef14", "ef21", "diana")


def top(x, k):
    """The k largest entries of x in magnitude, zeros elsewhere."""
    kept, places = np.zeros_like(x), np.argsort(-np.abs(x), kind="stable")[:k]
    kept[places] = x[places]
    return kept


class Sender:
    """A vector's way through a codec with memory, as the papers write it; top-k is biased, so that DIANA's step is 1."""

    def __init__(self, feedback, k, memory):
        self.feedback, self.k, self.memory = feedback, k, memory.copy()

    def __call__(self, x):
        """What the receiver reads in the place of x."""
        if self.feedback == "none":
            return top(x, self.k)
        if self.feedback == "ef14":
            sent = top(x + self.memory, self.k)
            self.memory = x + self.memory - sent
            return sent
        self.memory = self.memory + top(x - self.memory, self.k)
        return self.memory


@pytest.mark.tiers(quick=[], longer=["none"])
@pytest.mark.parametrize("feedback", FEEDBACK)
def test_gradient_descent_with_top_k_both_ways_is_the_program_of_the_papers(feedback):
    problem, lr, rounds = t.Quadratic.random(6, 5, seed=3), 0.05, 25
    matrices, offsets = (np.asarray(part, float) for part in problem.rows)
    exchange = t.Exchange(up=C.TopK(count=2), down=C.TopK(count=3), feedback=feedback)
    trace = t.run(t.MbGd(t.Full(), lr=lr), problem, rounds=rounds, exchange=exchange)
    with jax.enable_x64(True):
        x = np.asarray(problem.start(jax.random.key(0)))
    down = [Sender(feedback, 3, x if feedback in ("ef21", "diana") else np.zeros(5)) for _ in range(6)]
    up = [Sender(feedback, 2, np.zeros(5)) for _ in range(6)]
    for _ in range(rounds):
        read = [down[i](x) for i in range(6)]
        x = x - lr * np.mean([up[i](matrices[i] @ read[i] - offsets[i]) for i in range(6)], 0)
    np.testing.assert_allclose(trace.x, x, rtol=1e-10, atol=1e-12)


@pytest.mark.longer
def test_feedback_reaches_the_optimum_where_top_k_alone_does_not():
    """EF21 converges linearly (Richtarik et al., 2021, Theorem 2), biased compression of gradients does not converge at all."""
    problem = t.Quadratic.random(6, 5, seed=3)
    found = {
        feedback: t.run(
            t.MbGd(t.Full(), lr=0.01), problem, rounds=1500, every=1500, metrics=["distance"],
            exchange=t.Exchange(up=C.TopK(count=1), feedback=feedback),
        ).columns["distance"][-1]
        for feedback in ("none", "ef21")
    }  # fmt: skip
    assert found["ef21"] < 1e-12 < 1e-3 < found["none"]


COMPRESSED = {
    "both": t.Exchange(up=C.TopK(fraction=0.4), down=C.TopK(fraction=0.7), feedback="ef21"),
    "random": t.Exchange(up=C.Qsgd(bits=4), down=C.RandK(fraction=0.7)),
    "seeds": t.Exchange(up=C.RandK(fraction=0.7), feedback="ef14", by="whole"),
}


def plays_alike(algorithm, problem, exchange, **options):
    """Both engines give one run and one ledger, and the ledger is what the nodes send."""
    case = Case(algorithm, problem)
    run = case.run

    def coded(*arguments, **settings):
        return run(*arguments, exchange=exchange, **options, **settings)

    case.run = coded
    assert case.compiled.sites == case.nodes.sites
    case.require_same(case.compiled, case.nodes, "differs", case.tolerance)
    totals = case.nodes.ledger.totals()
    if not options:
        assert {name: totals[name] for name in count_requests(case)} == count_requests(case)
    return case


@pytest.mark.tiers(quick=[], slow=["icgm-both"])
@pytest.mark.parametrize("how", COMPRESSED)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_any_algorithm_runs_compressed_in_both_engines(name, how):
    plays_alike(ALGORITHMS[name].on(3.0), small(), COMPRESSED[how])


@pytest.mark.tiers(quick=[], slow=["low-rank"])
@pytest.mark.parametrize("name", CODECS)
def test_every_codec_runs_on_nested_parameters(name):
    exchange = t.Exchange(up=CODECS[name], down=CODECS[name], feedback="ef21")
    plays_alike(t.FedAvg(t.Nice(3), lr=0.05, steps=2), PROBLEMS["network"](), exchange)


@pytest.mark.everything
def test_factors_in_few_bits_run_in_both_engines():
    codec = C.LowRank(rank=1, bits=4)
    exchange = t.Exchange(up=codec, down=codec, feedback="ef21")
    plays_alike(t.FedAvg(t.Nice(3), lr=0.05, steps=2), PROBLEMS["network"](), exchange)


@pytest.mark.tiers(quick=[], slow=["diana"])
@pytest.mark.parametrize("feedback", ["ef14", "ef21", "diana"])
def test_what_is_lost_leaves_both_memories_as_they_were(feedback):
    """Server and clients agree after every round, though half of the replies are lost."""
    exchange = t.Exchange(up=C.TopK(count=1), down=C.TopK(count=2), feedback=feedback)
    options = {"faults": t.Faults(0.5, "skip"), "exchange": exchange}
    for engine in ("compiled", "nodes"):
        session = Session(t.Scaffold(t.Nice(3), lr=0.02), small(), rounds=12, engine=engine, **options)
        for _ in session.play():
            progress = session.progress
            if feedback != "ef14":
                for ours, theirs in zip(progress.memories["train"], progress.clients.memory["train"], strict=True):
                    for one, other in zip(ours, theirs, strict=True):
                        np.testing.assert_allclose(one, other, atol=1e-14)
    plays_alike(t.Scaffold(t.Nice(3), lr=0.02), small(), exchange, faults=t.Faults(0.5, "skip"))


@pytest.mark.slow
def test_an_unused_codec_changes_nothing():
    plain = t.run(t.Scaffold(t.Nice(3), lr=0.02), small(), rounds=5)
    for feedback in FEEDBACK:
        exchange = t.Exchange(up=C.Identity(), down=C.Identity(), feedback=feedback)
        coded = t.run(t.Scaffold(t.Nice(3), lr=0.02), small(), rounds=5, exchange=exchange)
        np.testing.assert_allclose(plain.x, coded.x, atol=1e-13)
        assert plain.ledger.totals()["bytes_up"] == coded.ledger.totals()["bytes_up"]


@pytest.mark.slow
@pytest.mark.parametrize("aggregation", ["sum", "encrypted"])
def test_sums_of_linear_payloads_are_decoded(aggregation):
    algorithm, options = t.MbGd(t.Nice(4), lr=0.05), {"rounds": 4, "exchange": t.Exchange(up=C.RandK(count=2, common=True))}
    plain = t.run(algorithm, small(), **options)
    summed = t.run(algorithm, small(), engine="nodes", aggregation=aggregation, **options)
    np.testing.assert_allclose(plain.x, summed.x, atol=1e-9)


@pytest.mark.slow
def test_central_noise_is_added_to_what_travels():
    """The noise is on the numbers that were sent, with the deviation z S w of the mechanism: clipping bounds payloads."""
    size, count, trials, clip = 40, 10, 60, 1e-9
    problem, exchange = t.Quadratic.random(4, size, seed=0), t.Exchange(up=C.RandK(count=count, common=True))

    def end(seed, z):
        privacy = t.Privacy(clip=clip, noise_multiplier=z, delta=1e-5, seed=seed)
        return np.asarray(t.run(t.MbGd(t.Full(), lr=1.0), problem, rounds=1, privacy=privacy, exchange=exchange).x)

    still = end(0, 1e-6)
    noise = np.stack([end(seed, 1.0) - still for seed in range(trials)])
    moved = np.abs(noise) > 0
    assert np.all(moved == moved[0]) and moved[0].sum() == count
    # The largest weight of a client is 1 / 4.
    assert abs(noise[moved].std() / (clip / 4) - 1) < 5 / np.sqrt(2 * count * trials)


@pytest.mark.parametrize("codec", [C.TopK(count=2), C.Qsgd(bits=4), C.RandK(count=2)])
def test_payloads_that_do_not_add_up_are_refused_for_sums_and_privacy(codec):
    algorithm, exchange = t.MbGd(t.Nice(3), lr=0.05), t.Exchange(up=codec)
    privacy = t.Privacy(clip=1.0, noise_multiplier=1.0, delta=1e-5, seed=0)
    for options in ({"engine": "nodes", "aggregation": "sum"}, {"privacy": privacy}):
        with pytest.raises(t.UserError, match="can be added up"):
            t.run(algorithm, small(), rounds=1, exchange=exchange, **options)
    with pytest.raises(t.UserError, match="bound each reply"):
        t.run(algorithm, small(), rounds=1, exchange=exchange, faults=t.Faults(norm=1.0, missing="skip"))


@pytest.mark.longer
def test_robust_means_are_taken_of_what_payloads_stand_for():
    options = {"rounds": 3, "aggregation": t.CoordinateMedian()}
    coded = t.run(t.MbGd(t.Full(), lr=0.05), small(), exchange=t.Exchange(up=C.Identity(), feedback="ef21"), **options)
    np.testing.assert_allclose(coded.x, t.run(t.MbGd(t.Full(), lr=0.05), small(), **options).x, atol=1e-13)


@pytest.mark.tiers(quick=[], slow=["seeds"])
@pytest.mark.parametrize("how", COMPRESSED)
def test_describe_foretells_the_bytes(how):
    session = Session(t.Scaffold(t.Nice(3), lr=0.02), small(), rounds=4, exchange=COMPRESSED[how])
    foretold = plan_of(session).totals()
    totals = session.run().trace.ledger.totals()
    for way in ("bytes_down", "bytes_up"):
        assert foretold[way].least == foretold[way].most == totals[way]


@pytest.mark.longer
def test_a_sweep_and_a_resumed_run_are_the_run(tmp_path):
    exchange, problem = COMPRESSED["both"], small()
    swept = t.sweep(t.MbGd(t.Nice(3), lr=0.1), problem, {"lr": [0.02, 0.05]}, rounds=6, exchange=exchange)
    session = Session(t.MbGd(t.Nice(3), lr=0.05), problem, rounds=6, exchange=exchange)
    np.testing.assert_allclose(swept.traces[1].x, session.run().trace.x, rtol=1e-12)
    first = Session(t.MbGd(t.Nice(3), lr=0.05), problem, rounds=6, exchange=exchange)
    first.step(1)
    first.step(3)
    second = Session(t.MbGd(t.Nice(3), lr=0.05), problem, rounds=6, exchange=exchange)
    second.restore(first.snapshot())
    np.testing.assert_array_equal(second.run().trace.x, session.trace.x)


trees = st.recursive(
    st.tuples(st.sampled_from(["float32", "float64", "int32"]), st.lists(st.integers(1, 4), max_size=3)).map(
        lambda pair: np.arange(np.prod(pair[1], dtype=int)).reshape(pair[1]).astype(pair[0])
    ),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(trees, st.booleans(), st.sampled_from(FEEDBACK))
def test_any_tree_comes_back(tree, whole, feedback):
    with jax.enable_x64(True):
        tree = jax.tree.map(jnp.asarray, tree)
        direction = Direction(C.Identity(), feedback, whole, Shape.of(tree))
        memory = direction.memory()
        payload, _ = direction.send(tree, memory, jax.random.key(0))
        back, _ = direction.receive(payload, memory, None)
    assert jax.tree.structure(back) == jax.tree.structure(tree)
    for one, other in zip(jax.tree.leaves(back), jax.tree.leaves(tree), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_diana_reads_without_bias_and_its_noise_vanishes():
    """With random signs every reply is unbiased, and at a fixed m its variance falls by omega / (1 + omega) a step or faster."""
    m, draws, codec = np.random.default_rng(0).normal(size=6), 3000, C.Qsgd(bits=2)
    direction = Direction(codec, "diana", False, Shape.of(jnp.asarray(m)))
    omega = codec.variance(6)

    def reads(key, steps=8):
        memory, read = direction.memory(), []
        for step in range(steps):
            payload, _ = direction.send(jnp.asarray(m), memory, jax.random.fold_in(key, step))
            tree, memory = direction.receive(payload, memory, None)
            read.append(tree)
        return jnp.stack(read)

    read = np.asarray(jax.vmap(reads)(jax.random.split(jax.random.key(1), draws)))
    deviation = read.std(0) / np.sqrt(draws)
    assert np.all(np.abs(read.mean(0) - m) <= 5 * deviation + 1e-6)
    squares = np.sum((read - m) ** 2, -1).mean(0)
    for step, square in enumerate(squares):
        assert square <= 1.1 * omega * (omega / (1 + omega)) ** step * np.sum(m**2)
