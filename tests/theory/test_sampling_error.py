"""Baselines of cost-aware client selection that stop at a floor: plain programs, hand counts, the floors; and bad input."""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import turnout as t
from tests.helpers.baselines import (
    CHANCE,
    CLIENTS,
    COHORTS,
    DIMENSION,
    EXACT,
    LAM,
    LR,
    NICE,
    NOISY,
    ROUNDS,
    SEED,
    SIZE,
    STEPS,
    Exact,
    Plain,
    celgd,
    counted,
    mime,
    mimemvr,
    saber_partial,
)  # fmt: skip
from tests.helpers.examples import LOCAL, network
from turnout.algorithms import Scaffnew
from turnout.core.seeds import Seeds
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.state import first_state
from turnout.experiment.config import Reader
from turnout.runs.setup import bind, prepare, scope
from turnout.samplers.full_pass import full_pass

PAIRS = [((j,), members) for j in range(CLIENTS) for members in COHORTS]
LAWS = {
    "mime": (mime, COHORTS, 1),
    "mimemvr": (mimemvr, COHORTS, 3),
    "ce-lgd": (celgd, PAIRS, 2),
    "saber-partial": (saber_partial, list(itertools.product(COHORTS, repeat=2)), 2),
}
"""The program of a round, its equally likely draws, and the vectors of its state."""


def sweep(name, rounds, **other) -> list[t.Trace]:
    """Play with 300 seeds in one compiled program for all numbers of rounds."""
    algorithm = replace(NOISY[name].algorithm, **other)
    return t.sweep(algorithm, Plain().problem, {}, seeds=range(300), rounds=rounds, every=rounds).traces


@pytest.mark.tiers(quick=[], longer=["mime"])
@pytest.mark.parametrize("name", NOISY)
def test_a_run_is_its_plain_program_and_its_ledger_a_hand_count(name):
    trace = sweep(name, ROUNDS)[SEED]
    x, counts = NOISY[name].played()
    np.testing.assert_allclose(trace.x, x, atol=1e-12)
    assert counted(trace) == counts
    totals = trace.ledger.totals()
    assert totals["bytes_up"] == 8 * DIMENSION * totals["vectors_up"]
    assert totals["bytes_down"] == 8 * DIMENSION * totals["vectors_down"]


def floor(name, *settings) -> float:
    """E|x - x*|^2 in the stationary law of z <- M_S z + c_S over equally likely draws S, x being the first part of z."""
    f, (program, draws, parts) = Plain(), LAWS[name]
    size = parts * DIMENSION

    def after(z, draw):
        return np.concatenate(program(f, tuple(z.reshape(parts, DIMENSION)), 2, draw, *settings)[0])

    shifts = np.array([after(np.zeros(size), draw) for draw in draws])
    maps = np.array([np.stack([after(e, draw) for e in np.eye(size)], axis=1) for draw in draws]) - shifts[:, :, None]
    mean = np.linalg.solve(np.eye(size) - maps.mean(0), shifts.mean(0))
    noise = maps @ mean + shifts - mean
    squared = np.einsum("sij,skl->ikjl", maps, maps).reshape(size**2, size**2) / len(draws)
    assert np.max(np.abs(np.linalg.eigvals(squared))) < 0.9
    covariance = np.linalg.solve(np.eye(size**2) - squared, (noise.T @ noise / len(draws)).ravel()).reshape(size, size)
    return np.sum((mean[:DIMENSION] - f.optimum) ** 2) + np.trace(covariance[:DIMENSION, :DIMENSION])


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISY)
def test_it_stops_at_the_floor_of_its_draws(name):
    """The mean over seeds is the stationary second moment, for which all draws are listed; of one cohort for SABER-partial."""
    traces = sweep(name, 150, **({"cohorts": 1} if name == "saber-partial" else {}))
    errors = [np.sum((trace.x - Plain().optimum) ** 2) for trace in traces]
    assert np.mean(errors) == pytest.approx(floor(name), abs=5 * np.std(errors) / np.sqrt(len(errors)))
    assert 0 < np.std(errors) < 3 * np.mean(errors)


@pytest.mark.parametrize("name", ["mimemvr", "ce-lgd"])
def test_a_longer_memory_lowers_the_floor(name):
    assert floor(name, CHANCE) < 0.8 * floor(name, 1.0)


@pytest.mark.longer
@settings(max_examples=15)
@given(some.integers(1, 6).flatmap(lambda n: some.tuples(some.just(n), some.integers(1, n))))
def test_a_pass_is_charged_by_the_size_of_a_cohort(sizes):
    n, m = sizes
    whole = full_pass(t.Nice(m), t.Population(n)).draw(None, jax.random.key(0), t.Population(n))
    assert whole.selection == "arbitrary" and whole.selections == -(-n // m) and whole.places == n


def test_a_pass_knows_the_size_of_any_cohort():
    population = t.Population(6)
    for sampler, size in ((t.Full(), 6), (t.Full(4), 4), (t.Independent(size=2.7), 3)):
        assert full_pass(sampler.bind(population), population) == t.Full(size)


MISTAKES = {
    "delegate": (lambda: t.FedRed(NICE, LAM, 10.0, delegate=t.Delegate(4)), "names client 4, but they are 0 to 3"),
    "more than all": (lambda: t.Gd(t.Nice(5), LR), "wants 5 clients, but there are 4"),
    "away": (
        lambda: t.Gd(t.Available(NICE, probability=0.5), LR),
        "take a sampler without availability",
    ),
    "lam": (lambda: t.SaberFull(NICE, Exact(), 0.0), "SaberFull.lam must be greater than 0"),
    "lr": (lambda: t.CeLgd(NICE, -1.0, STEPS), "CeLgd.lr must be greater than 0"),
    "momentum": (lambda: t.MimeMvr(NICE, LR, STEPS, 0.0), "MimeMvr.momentum must be greater than 0"),
    "steps": (lambda: t.ScaffoldSag(NICE, LR, 0), "ScaffoldSag.steps must be at least 1"),
    "probability": (lambda: Scaffnew(NICE, LR, 1.5), "Scaffnew.probability must be at most 1"),
    "biased": (lambda: t.MimeMvr(t.PowerOfChoice(SIZE, 3), LR, STEPS), "a biased sampler does not go with an unbiased average"),
}


@pytest.mark.tiers(quick=["mime", "mimemvr", "ce-lgd", "saber-partial"], longer=["feddyn", "scaffnew"])
@pytest.mark.parametrize("name", EXACT | NOISY)
def test_states_keep_their_shapes_and_types_in_single_precision(name):
    """On parameters that are a pytree, and without running anything."""
    algorithm = (EXACT | NOISY)[name].algorithm
    if hasattr(algorithm, "solver"):
        algorithm = replace(algorithm, solver=LOCAL)

    def first_and_after():
        state = first_state(job, bound, ())
        ask = CompiledAsk(job, bound, jnp.ones((), "int32"), state, None)
        server = ask.start(job.start)
        first = bound.output(server), server, ask.state.clients
        server = strongly_typed(bound.round(ask, server))
        return first, (bound.output(server), server, ask.state.clients)

    with scope("single"):
        bound, job = bind(algorithm, network()), prepare(network(), Seeds.of(0), None, None)
        first, after = jax.eval_shape(first_and_after)
    assert jax.tree.structure(first) == jax.tree.structure(after)
    assert [(a.shape, a.dtype) for a in jax.tree.leaves(first)] == [(a.shape, a.dtype) for a in jax.tree.leaves(after)]
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(first)} == {"float32"}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(name):
    make, words = MISTAKES[name]
    with pytest.raises(t.UserError, match=words):
        t.run(make(), Plain().problem, rounds=1)


def test_a_configuration_says_it_all():
    def algorithm(**table):
        tables = {"problem": {"kind": "ridge", "data": "made"}, "split": {"kind": "iid", "clients": 4}}
        experiment = Reader("x.toml", "", tables | {"sampler": {"kind": "nice", "size": 2}, "algorithm": table}).experiment(
            "made"
        )
        assert f'kind = "{table["kind"]}"' in experiment.to_toml() and "everyone" not in experiment.to_toml()
        return experiment.algorithm

    solver = {"kind": "newton-cg", "tolerance": 1e-8}
    assert algorithm(kind="gd", lr=0.1) == t.Gd(NICE, 0.1)
    assert algorithm(kind="scaffnew", lr=0.1, probability=0.2) == Scaffnew(NICE, 0.1, 0.2)
    delegate = {"kind": "delegate", "client": 2}
    assert algorithm(kind="fedred", lam=1, smoothness=2.0, delegate=delegate).delegate == t.Delegate(2)
    found = algorithm(kind="saber-full", lam=1.0, solver=solver, estimator={"kind": "sarah", "probability": 0.1})
    assert found == t.SaberFull(NICE, t.client_solvers.NewtonCg(tolerance=1e-8), 1.0, estimator=t.Sarah(0.1))
