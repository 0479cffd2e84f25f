"""Mixed precision: clients compute in bfloat16, all else is in float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse import csr_array

import turnout as t
from turnout.core.seeds import Seeds
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.problems.storage.layout import Padded, Ragged
from turnout.problems.storage.store import store
from turnout.runs.session import Session
from turnout.runs.setup import prepare, scope

GENERATOR = np.random.default_rng(0)
EPS = 2.0**-8
"""The relative error of rounding to bfloat16, whose significand has 8 bits."""


def dataset(rows: int, sparse: bool = False) -> Dataset:
    features = GENERATOR.normal(size=(rows, 6))
    labels = np.argmax(features[:, :3] + GENERATOR.normal(size=(rows, 3)), axis=1).astype(float)
    return Dataset("made", csr_array(np.where(features > 0.5, features, 0)) if sparse else features, labels)


def split_of(sizes) -> Split:
    return Split.of(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]), sum(sizes))


EQUAL, UNLIKE = [16] * 4, [50, 4, 5, 5]


def job_of(problem, mixed: bool):
    return prepare(problem, Seeds.of(0), None, None, mixed=mixed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        pytest.param(t.Multinomial.of, Ragged, id="multinomial", marks=pytest.mark.slow),
        pytest.param(t.Network.of, Padded, id="network"),
    ],
)
def test_gradients_are_those_of_float32_up_to_rounding(make, kind):
    problem = make(dataset(64, sparse=kind is Ragged), split_of(EQUAL if kind is Padded else UNLIKE), mu=0.01)
    assert isinstance(store(problem), kind)
    with scope("mixed"):
        jobs = job_of(problem, True), job_of(problem, False)
        x = jax.tree.map(lambda leaf: leaf + 0.1, jobs[0].start)
        for i in (0, 3):
            (low, slope), (value, gradient) = (job.storage.oracle(jnp.asarray(i, "int32"))("value_and_grad", x) for job in jobs)
            assert low.dtype == jnp.float32 and {leaf.dtype for leaf in jax.tree.leaves(slope)} == {jnp.dtype("float32")}
            assert 0 < abs(low - value) <= 4 * EPS * (1 + abs(value))
            # Each row's gradient is rounded in proportion to its own size, a few times on the way.
            size = np.sqrt(sum(float(jnp.vdot(leaf, leaf)) for leaf in jax.tree.leaves(gradient))) + 1
            error = np.sqrt(
                sum(float(jnp.sum((a - b) ** 2)) for a, b in zip(*map(jax.tree.leaves, (slope, gradient)), strict=True))
            )
            assert 0 < error <= 8 * EPS * size


@pytest.mark.slow
def test_sums_over_many_rows_are_not_kept_in_bfloat16():
    """In bfloat16 the 20,000 equal parts of the gradient of a bias would stall at a few hundred of them."""
    data = Dataset("alike", np.ones((20_000, 1)), np.arange(20_000) % 2 / 1.0)
    problem = t.Multinomial.of(data, split_of([20_000]), mu=0.0)
    with scope("mixed"):
        x = {"weight": jnp.full((1, 2), 0.5), "bias": jnp.asarray([2.0, -2.0])}
        slopes = [
            job_of(problem, mixed).storage.oracle(jnp.asarray(0, "int32"))("value_and_grad", x)[1] for mixed in (True, False)
        ]
    for low, gradient in zip(*map(jax.tree.leaves, slopes), strict=True):
        np.testing.assert_allclose(low, gradient, atol=4 * EPS)
        assert np.abs(gradient).max() > 0.4


@pytest.mark.slow
def test_runs_keep_float32_and_agree_between_engines():
    problem = t.Network.of(dataset(64), split_of(UNLIKE), hidden=5)
    algorithm = t.Scaffold(t.Nice(2), lr=0.2, steps=2)
    sessions = [
        Session(algorithm, problem, seeds=Seeds.of(0), rounds=3, precision=precision, engine=engine).run()
        for precision, engine in (("mixed", "compiled"), ("mixed", "nodes"), ("single", "compiled"))
    ]
    for session in sessions:
        kinds = {leaf.dtype for leaf in jax.tree.leaves(session.progress) if jnp.issubdtype(leaf.dtype, jnp.floating)}
        assert kinds == {jnp.dtype("float32")}
    compiled, nodes, single = (np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(s.trace.x)]) for s in sessions)
    np.testing.assert_allclose(compiled, nodes, atol=16 * EPS)
    np.testing.assert_allclose(compiled, single, atol=32 * EPS)
    assert not np.array_equal(compiled, single)
    np.testing.assert_array_equal(sessions[0].trace.columns["counts"], sessions[2].trace.columns["counts"])
    # Metrics are those of float32 where the run stands.
    again = t.run(algorithm, problem, rounds=0, start=sessions[0].trace.x, precision="single")
    assert again.metrics["value"] == pytest.approx(sessions[0].trace.metrics["value"], rel=1e-6)


def test_clients_of_their_own_compute_in_types_of_their_own():
    oracle = t.NumpyOracle(lambda x, rows: 0.0, lambda x, rows: 0 * x, 2)
    with pytest.raises(t.UserError, match="losses written in JAX"):
        t.run(t.MbGd(t.Full(), 0.1), t.Remote.of(np.zeros(2), [oracle]), rounds=1, engine="nodes", precision="mixed")


def test_a_federation_of_such_clients_refuses_it_before_anybody_is_asked():
    pytest.importorskip("flwr")
    from turnout.experiment.experiment import Experiment, RunSpec
    from turnout.experiment.remote_spec import RemoteSpec
    from turnout.federation.handshake import build_for_federation

    problem = RemoteSpec("turnout.federation.template.numpy_clients", clients=2)
    experiment = Experiment("made", problem, None, t.MbGd(t.Full(), 0.1), RunSpec(precision="mixed"))
    with pytest.raises(t.UserError, match="losses written in JAX"):
        build_for_federation(experiment, None)
