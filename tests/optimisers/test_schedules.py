"""Steps that change from round to round."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from tests.helpers.commands import config
from turnout.core.seeds import Seeds
from turnout.engines.compiled import _advance
from turnout.experiment.config import read
from turnout.optimisers.schedules import Cosine, Exponential, Inverse, Step, WarmUp
from turnout.runs.session import Session
from turnout.runs.setup import bind

RATE, ROUNDS, FLOOR = st.floats(0.1, 1), st.integers(1, 50), st.floats(0, 1)


def factors(schedule, count=60):
    return np.asarray(schedule.factor(jnp.arange(float(count))))


def reference(schedule, count=60):
    """What optax says, in 64 bits, of a step of 1."""
    return np.asarray(schedule(jnp.arange(float(count))))


@pytest.mark.longer
@given(RATE, ROUNDS, FLOOR)
def test_factors_are_those_of_optax(rate, rounds, floor):
    near = {"rtol": 1e-10, "atol": 1e-14}
    np.testing.assert_allclose(factors(Exponential(rate, rounds)), reference(optax.exponential_decay(1.0, rounds, rate)), **near)
    stairs = optax.exponential_decay(1.0, rounds, rate, staircase=True)
    np.testing.assert_allclose(factors(Step(rate, rounds)), reference(stairs), **near)
    cosine = optax.cosine_decay_schedule(1.0, rounds, floor)
    np.testing.assert_allclose(factors(Cosine(rounds, floor)), reference(cosine), **near)
    rise = optax.linear_schedule(1 / rounds, 1.0, max(rounds - 1, 1))
    joined = optax.join_schedules([rise, cosine], [rounds])
    np.testing.assert_allclose(factors(WarmUp(rounds, Cosine(rounds, floor))), reference(joined), **near)
    np.testing.assert_allclose(factors(Inverse(rounds)), 1 / (1 + np.arange(60) / rounds), **near)


@pytest.mark.longer
def test_a_cosine_spans_the_run_or_what_is_left_of_it():
    algorithm = t.MbGd(t.Full(), lr=0.1, schedule=WarmUp(4, Cosine()))
    assert bind(algorithm, quadratic(), rounds=20).schedule.schedule.rounds == 16
    assert bind(t.MbGd(t.Full(), lr=0.1, schedule=Cosine()), quadratic(), rounds=20).schedule.rounds == 20
    assert factors(Cosine(20.0), 21)[-1] == pytest.approx(0, abs=1e-12)


@pytest.mark.longer
@given(st.floats(0.1, 50))
def test_a_warm_up_rises_to_one_and_no_further(rounds):
    result = np.asarray(WarmUp(rounds).factor(jnp.arange(60.0)))
    assert np.all(np.diff(result) >= 0) and result[-1] == result.max() == 1


def quadratic():
    generator = np.random.default_rng(0)
    matrices = np.stack([np.diag(generator.uniform(0.5, 2, 3)) for _ in range(4)])
    return t.Quadratic.of(matrices, generator.normal(size=(4, 3)))


@pytest.mark.slow
def test_runs_follow_them_in_every_engine_also_after_an_interruption():
    problem, schedule = quadratic(), WarmUp(2, Exponential(0.8))
    matrices, vectors = problem.rows
    x, lrs = np.zeros(3), 0.3 * factors(schedule, 6)
    for lr in lrs:
        y = np.tile(x, (4, 1))
        for _ in range(2):
            y = y - lr * (np.einsum("ijk,ik->ij", matrices, y) - vectors)
        x = y.mean(0)
    algorithm = t.FedAvg(t.Full(), lr=0.3, steps=2, schedule=schedule)
    for engine in ("compiled", "nodes"):
        np.testing.assert_allclose(t.run(algorithm, problem, rounds=6, engine=engine).x, x, rtol=1e-12)
    first, second = (Session(algorithm, problem, seeds=Seeds.of(0), rounds=6, metrics=("value",)) for _ in range(2))
    playing = first.play()
    next(playing), next(playing)
    assert 0 < first.round < 6
    second.restore(first.snapshot())
    np.testing.assert_allclose(second.run().trace.x, x, rtol=1e-12)


@pytest.mark.longer
def test_numbers_are_leaves():
    problem = quadratic()
    run = lambda rate: t.run(t.MbGd(t.Full(), lr=0.3, schedule=Exponential(rate, 3.0)), problem, rounds=5)  # noqa: E731
    first = run(0.9)
    programs = _advance.compiled(True)._cache_size()
    second = run(0.5)
    assert _advance.compiled(True)._cache_size() == programs and not np.array_equal(first.x, second.x)
    swept = t.sweep(t.MbGd(t.Full(), lr=0.3, schedule=Exponential(0.7, 3.0)), problem, {"schedule.rate": [0.9, 0.5]}, rounds=5)
    for trace, single in zip(swept.traces, (first, second), strict=True):
        np.testing.assert_allclose(trace.x, single.x, rtol=1e-12)


def test_files_name_them(tmp_path):
    schedule = {"kind": "warm-up", "rounds": 3, "schedule": {"kind": "cosine", "floor": 0.1}}
    path = config(tmp_path, algorithm={"kind": "fedavg", "lr": 0.3, "schedule": schedule})
    experiment = read(path)
    assert experiment.algorithm.schedule == WarmUp(3.0, Cosine(floor=0.1))
    path.write_text(experiment.to_toml())
    assert read(path) == experiment
    short = read(config(tmp_path, algorithm={"kind": "mbgd", "lr": 0.3, "schedule": "cosine"}))
    assert short.algorithm.schedule == Cosine()
    with pytest.raises(t.UserError, match=r"algorithm\.schedule\.rate: must be .* 1.5"):
        read(config(tmp_path, algorithm={"kind": "mbgd", "lr": 0.3, "schedule": {"kind": "exponential", "rate": 1.5}}))
    with pytest.raises(t.UserError, match="unknown schedule kind 'cosin'"):
        read(config(tmp_path, algorithm={"kind": "mbgd", "lr": 0.3, "schedule": "cosin"}))
