"""An algorithm as a function of drjax plays the test vectors, is differentiable, and is made of drjax's primitives."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import random_array

import turnout as t
from tests.export.vector_configurations import NAMES, assert_servers
from tests.vectors.turnout_runs import RUNS, SEED, problem_of
from turnout import vectors
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.export import map_reduce

pytest.importorskip("drjax", reason="drjax is not installed: pip install drjax")


def quadratic():
    return t.Quadratic.random(clients=6, dimension=3, seed=0)


@pytest.mark.tiers(quick=[], longer=NAMES)
@pytest.mark.parametrize("name", RUNS)
def test_it_plays_the_vectors(name):
    vector, server = vectors.load(name), vectors.load(name)["start"]["server"]
    start, rounds = np.array(server["x" if "x" in server else "v"]), len(vector["rounds"])
    made = t.export.drjax(RUNS[name].make(vector["parameters"], t.Nice(2)), problem_of(vector, start), rounds, SEED, start)
    states, play = [made.state], jax.jit(made.round)
    for _ in range(rounds):
        states.append(play(states[-1], made.data))
    assert_servers(name, [jax.tree.map(np.asarray, state.server) for state in states])


@pytest.mark.longer
def test_its_counts_are_those_of_a_run():
    scaffold = t.Scaffold(t.Nice(3), lr=0.05, steps=2)
    made = t.export.drjax(scaffold, quadratic(), rounds=2)
    play = jax.jit(made.round)
    state = play(play(made.state, made.data), made.data)
    run = t.run(scaffold, quadratic(), rounds=2)
    assert made.ledger(state).rows() == run.ledger.rows()
    np.testing.assert_allclose(made.parameters(state), run.x, rtol=1e-14)


def primitives(jaxpr) -> list[str]:
    """The names of all primitives, inner programs included."""
    found = []
    for equation in jaxpr.eqns:
        found.append(equation.primitive.name)
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda value: hasattr(value, "eqns")):
            inner = getattr(value, "jaxpr", value)
            found += primitives(inner) if hasattr(inner, "eqns") else []
    return found


@pytest.mark.longer
def test_an_exchange_is_a_broadcast_and_sums():
    """DANE: x and g go to the clients; two means, each of one vector, come back."""
    made = t.export.drjax(t.Dane(t.Full(), t.client_solvers.Gradient(lr=0.05, steps=2, tolerance=0.0)), quadratic())
    names = primitives(jax.make_jaxpr(made.round)(made.state, made.data).jaxpr)
    assert names.count("broadcast_clients") == 2
    assert names.count("sum_from_clients") == 2


@pytest.mark.longer
def test_two_rounds_are_differentiated_backwards():
    """By the parameters and by the clients' rows, against central differences."""
    made = t.export.drjax(t.FedAvg(t.Nice(3), lr=0.05, steps=3), quadratic())

    @jax.jit
    def loss(x, vectors):
        (matrices, _), weight = made.data
        state = made.state._replace(server=x)
        for _ in range(2):
            state = made.round(state, ((matrices, vectors), weight))
        return jnp.sum(made.parameters(state) ** 2)

    x, vectors = jnp.array([1.0, -2.0, 0.5]), made.data[0][1]
    along = jnp.ones_like(x), jnp.cos(jnp.arange(vectors.size)).reshape(vectors.shape)
    slopes = jax.grad(loss, argnums=(0, 1))(x, vectors)
    for k, direction in enumerate(along):
        step = [jnp.zeros_like(x), jnp.zeros_like(vectors)]
        step[k] = 1e-5 * direction
        central = (loss(x + step[0], vectors + step[1]) - loss(x - step[0], vectors - step[1])) / 2e-5
        np.testing.assert_allclose(jnp.sum(slopes[k] * direction), central, rtol=1e-7)


@pytest.mark.longer
def test_a_mesh_spreads_the_places_over_devices():
    """With an axis of drjax's placement: the same parameters, and sums of what devices have summed."""
    made = t.export.drjax(t.FedAvg(t.Nice(4), lr=0.05, steps=3), t.Quadratic.random(clients=8, dimension=3, seed=0))
    alone = jax.jit(made.round)(made.state, made.data)
    with jax.set_mesh(jax.make_mesh((2,), ("clients",), axis_types=(jax.sharding.AxisType.Auto,))):
        compiled = jax.jit(made.round).lower(made.state, made.data).compile()
        assert "all-reduce" in compiled.as_text()
        np.testing.assert_allclose(made.parameters(compiled(made.state, made.data)), made.parameters(alone), rtol=1e-14)


def test_what_is_not_carried_is_refused(monkeypatch):
    with pytest.raises(t.UserError, match="groups"):
        t.export.drjax(t.FedPer(t.Full(), lr=0.1, leaves="w"), quadratic())
    rows = random_array((3, 400), density=0.01, format="csr", random_state=np.random.default_rng(0))
    sparse = t.Ridge.of(Dataset("tiny", rows, np.ones(3)), Split.of([[0], [1], [2]], 3), mu=0.1)
    with pytest.raises(t.UserError, match="sparse"):
        t.export.drjax(t.FedAvg(t.Full(), lr=0.1), sparse)
    map_reduce._programs.cache_clear()
    monkeypatch.setitem(sys.modules, "drjax", None)
    with pytest.raises(t.UserError, match="pip install drjax"):
        t.export.drjax(t.FedAvg(t.Full(), lr=0.1), quadratic())
