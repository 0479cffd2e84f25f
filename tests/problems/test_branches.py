"""Branches that each client takes by what it finds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.data import Dataset, Split
from turnout.problems.storage.branches import cond

SIZES = {"padded": [4, 6, 5, 6], "ragged": [3, 40, 8, 1]}
MU = 0.1


def logistic(kind: str) -> tuple[t.Logistic, np.ndarray, np.ndarray]:
    generator, rows = np.random.default_rng(0), sum(SIZES[kind])
    features, labels = generator.normal(size=(rows, 3)), np.where(generator.normal(size=rows) > 0, 1.0, -1.0)
    split = Split(np.arange(rows), np.concatenate([[0], np.cumsum(SIZES[kind])]))
    return t.Logistic.of(Dataset("made", features, labels), split, mu=MU), features, labels


@t.record
class Uphill(t.Algorithm):
    """Clients whose gradient at x begins with a positive number send their gradient at -x, and others x."""

    sampler: t.Sampler

    def round(self, ask, x):
        return ask(self.sampler, self.look, x).mean()

    @on_client
    def look(self, client, x):
        return Done(client.cond(client.grad(x)[0] > 0, lambda y: client.grad(-y), lambda y: y, x), queries=2)


@pytest.mark.tiers(quick=[], longer=["padded"])
@pytest.mark.parametrize("kind", SIZES)
def test_each_client_takes_its_own_branch(kind):
    problem, features, labels = logistic(kind)
    x, found, ends = np.array([0.1, -0.2, 0.3]), [], np.cumsum(SIZES[kind])
    for end, size in zip(ends, SIZES[kind], strict=True):
        a, b = features[end - size : end], labels[end - size : end]

        def gradient(x, a=a, b=b):
            return -(a * (b / (1 + np.exp(b * (a @ x))))[:, None]).mean(0) + MU * x

        found.append(gradient(-x) if gradient(x)[0] > 0 else x)
    assert 0 < sum(np.array_equal(each, x) for each in found) < 4
    trace = t.run(Uphill(t.Full()), problem, rounds=1, start=x)
    np.testing.assert_allclose(trace.x, np.mean(found, axis=0), rtol=1e-10)


def test_a_branch_for_each_place_copies_nothing_that_all_read():
    """Two rows of a thousand that all places read would be in eight copies."""
    table, predicates = jnp.ones((2, 1000)), jnp.arange(8) % 2 == 0

    def one(predicate, x):
        return cond(predicate, lambda x: jnp.sum(table[0] * x), lambda x: -x, x)

    program = jax.make_jaxpr(jax.vmap(one))(predicates, jnp.arange(8.0))
    np.testing.assert_array_equal(jax.vmap(one)(predicates, jnp.arange(8.0)), np.where(predicates, 1000, -1) * np.arange(8.0))
    assert "8,2,1000" not in str(program)
    assert jax.vmap(one, (None, 0))(jnp.array(True), jnp.arange(8.0)).tolist() == (1000 * np.arange(8.0)).tolist()
