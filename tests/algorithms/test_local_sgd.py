"""Local passes over shuffled rows in batches: their order, their steps and their cost."""

from collections import Counter
from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import turnout as t
from tests.helpers.examples import logistic
from turnout.core.permutation import shuffled
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.problems.storage.jax_client import JaxClient
from turnout.problems.storage.layout import Padded, Ragged
from turnout.problems.storage.store import store

EVEN, UNEVEN = (5, 4, 6, 5, 4, 6), (1, 2, 40, 3, 2, 7)


def ridge(sizes, seed=0) -> t.Ridge:
    generator = np.random.default_rng(seed)
    rows = sum(sizes)
    dataset = Dataset("made", generator.normal(size=(rows, 3)), generator.normal(size=rows))
    split = Split(np.arange(rows), np.concatenate([[0], np.cumsum(sizes)]))
    return t.Ridge.of(dataset, split, mu=0.1, weights=np.array(sizes, float))


@jax.jit
def padded_order(key, n):
    return shuffled(key, n)(jnp.minimum(jnp.arange(3000, dtype="int32"), n - 1))


def order_of(key, n: int) -> np.ndarray:
    """The order that `key` gives n rows; one program serves all n up to 3,000."""
    return np.asarray(padded_order(key, jnp.asarray(n, "int32")))[:n]


@settings(max_examples=40)
@given(st.integers(1, 3000), st.integers(0, 99))
def test_a_shuffle_is_a_permutation(n, seed):
    np.testing.assert_array_equal(np.sort(order_of(jax.random.key(seed), n)), np.arange(n))


@pytest.mark.tiers(quick=[], longer=["3", "4"])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_every_order_is_equally_likely(n):
    draws = 60_000
    keys = jax.random.split(jax.random.key(n), draws)
    shuffle = jax.jit(jax.vmap(lambda key: shuffled(key, jnp.asarray(n, "int32"))(jnp.arange(n, dtype="int32"))))
    seen = Counter(map(tuple, np.asarray(shuffle(keys)).tolist()))
    assert stats.chisquare([seen[order] for order in permutations(range(n))]).pvalue > 1e-3


@pytest.mark.longer
def test_neighbours_of_a_long_shuffle_are_independent():
    """Of 50 rows, each ordered pair of different ones is equally likely to come first and second."""
    n, draws = 50, 100_000
    keys = jax.random.split(jax.random.key(1), draws)
    shuffle = jax.jit(jax.vmap(lambda key: shuffled(key, jnp.asarray(n, "int32"))(jnp.arange(2, dtype="int32"))))
    first, second = np.asarray(shuffle(keys)).T
    assert np.all(first != second)
    pairs = np.bincount(n * first + second, minlength=n * n).reshape(n, n)[~np.eye(n, dtype=bool)]
    assert stats.chisquare(pairs).pvalue > 1e-3


@pytest.mark.tiers(quick=[], longer=["tiles"])
@pytest.mark.parametrize("sizes", [EVEN, UNEVEN], ids=["blocks", "tiles"])
def test_every_pass_takes_every_row_once(sizes):
    """A batch's gradient is the mean over its rows: summed with their numbers over a pass it is n_i grad f_i in any order."""
    problem, x = ridge(sizes), jnp.arange(1.0, 4)
    storage = jax.tree.map(jnp.asarray, store(problem))
    assert isinstance(storage, Padded if sizes is EVEN else Ragged)

    def one(i, key):
        client = JaxClient(i, key, None, storage.oracle(i))

        def body(batch, carry):
            number, total = carry
            rows = jnp.minimum(4, sizes_of[i] - number % batches[i] * 4)
            return number + 1, total + rows.astype(total.dtype) * batch.grad(x)

        sizes_of = jnp.asarray(sizes, "int32")
        batches = (sizes_of + 3) // 4
        (_, total), steps = client.passes(key, 3, 4, body, (jnp.zeros((), "int32"), jnp.zeros(3)))
        return total / (3 * sizes_of[i]).astype(total.dtype), client.grad(x), steps

    ids = jnp.arange(len(sizes), dtype="int32")
    means, gradients, steps = jax.jit(jax.vmap(one))(ids, jax.random.split(jax.random.key(2), len(sizes)))
    np.testing.assert_allclose(means, gradients, rtol=1e-12)
    np.testing.assert_array_equal(steps, [3 * -(-size // 4) for size in sizes])


def reference(problem, lr, batch, epochs, rounds, seeds) -> np.ndarray:
    """Full participation, in NumPy, but for the order of the rows."""
    x, weights = np.zeros(3), problem.sizes / problem.sizes.sum()
    for number in range(1, rounds + 1):
        mean = np.zeros(3)
        for i, size in enumerate(problem.sizes.tolist()):
            features, targets = (part[problem.offsets[i] : problem.offsets[i + 1]] for part in problem.rows)
            key, y = jax.random.fold_in(seeds.exchange(number, 0), i), x
            for epoch in range(epochs):
                order = order_of(jax.random.fold_in(key, epoch), size)
                for start in range(0, size, batch):
                    a, b = features[order[start : start + batch]], targets[order[start : start + batch]]
                    y = y - lr * (a.T @ (a @ y - b) / len(b) + problem.mu * y)
            mean += weights[i] * (y - x)
        x = x + mean
    return x


@pytest.mark.tiers(quick=[], longer=["sizes3-MbLocalGd-compiled"])
@pytest.mark.parametrize(
    ("sizes", "make", "engine"),
    [
        (EVEN, t.FedAvg, "compiled"),
        (EVEN, t.MbLocalGd, "nodes"),
        (UNEVEN, t.FedAvg, "nodes"),
        (UNEVEN, t.MbLocalGd, "compiled"),
        pytest.param(EVEN, t.FedAvg, "nodes", marks=pytest.mark.slow),
        pytest.param(EVEN, t.MbLocalGd, "compiled", marks=pytest.mark.slow),
        pytest.param(UNEVEN, t.FedAvg, "compiled", marks=pytest.mark.slow),
        pytest.param(UNEVEN, t.MbLocalGd, "nodes", marks=pytest.mark.slow),
    ],
)
def test_it_is_local_sgd(sizes, make, engine):
    problem, seeds = ridge(sizes), t.Seeds.of(7)
    trace = t.run(make(t.Full(), lr=0.1, batch=4, epochs=2), problem, rounds=3, seeds=seeds, engine=engine)
    np.testing.assert_allclose(trace.x, reference(problem, 0.1, 4, 2, 3, seeds), atol=1e-12)
    steps = [2 * -(-size // 4) for size in sizes]
    totals = trace.ledger.totals()
    assert (totals["queries_total"], totals["queries_slowest"]) == (3 * sum(steps), 3 * max(steps))


@pytest.mark.slow
def test_a_batch_that_holds_all_rows_is_a_full_step():
    problem = logistic()
    whole = t.run(t.FedAvg(t.Nice(4), lr=0.3, steps=3), problem, rounds=5)
    batches = t.run(t.FedAvg(t.Nice(4), lr=0.3, batch=100, epochs=3), problem, rounds=5)
    np.testing.assert_allclose(batches.x, whole.x, atol=1e-12)
    assert batches.ledger.totals() == whole.ledger.totals()


@pytest.mark.slow
def test_only_drawn_clients_are_charged():
    """With a place for every client, the queries are those of the clients in the cohort."""
    problem = ridge(UNEVEN)
    drawn = t.run(t.MbLocalGd(t.Independent(size=2.0, capacity=6), lr=0.1, batch=4, epochs=1), problem, rounds=40)
    everyone = t.run(t.MbLocalGd(t.Full(), lr=0.1, batch=4, epochs=1), problem, rounds=40)
    contacts, queries = (drawn.ledger.totals()[name] for name in ("contacts", "queries_total"))
    assert contacts <= queries < everyone.ledger.totals()["queries_total"]
    assert np.all(np.isfinite(drawn.x))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": 2, "batch": 4, "epochs": 1}, "takes either steps, on all rows or on batches, or epochs"),
        ({"steps": 2, "epochs": 1}, "takes either steps"),
        ({"batch": 4}, "needs both batch"),
        ({"epochs": 2}, "needs both batch"),
    ],
)
@pytest.mark.parametrize("make", [t.FedAvg, t.MbLocalGd])
def test_half_given_or_doubly_given_work_is_one_sentence(make, options, sentence):
    with pytest.raises(t.UserError, match=sentence):
        make(t.Full(), lr=0.1, **options)


def test_without_either_the_steps_are_as_ever():
    assert t.FedAvg(t.Full(), lr=0.1).steps == 1 and t.MbLocalGd(t.Full(), lr=0.1).steps == 5
