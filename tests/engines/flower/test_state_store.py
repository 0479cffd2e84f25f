"""The private states of all clients inside the compiled program: a cohort's are changed where they are."""

import jax
import numpy as np
import pytest

import turnout as t
from turnout.core.seeds import Seeds
from turnout.engines.compiled import advance
from turnout.estimators import RgSaga
from turnout.runs.session import Session

N, D = 211, 7
"""No other array of the program has this shape."""


@pytest.mark.tiers(quick=[], longer=["one exchange"])
@pytest.mark.parametrize(
    "algorithm",
    [t.Scaffold(t.Nice(2), lr=0.01, steps=2), t.Icgm(t.Nice(2), RgSaga(passes=1), lam=10.0, probability=0.5)],
    ids=["one exchange", "two exchanges"],
)
def test_a_round_does_not_copy_the_states_of_all_clients(algorithm):
    generator = np.random.default_rng(0)
    problem = t.Quadratic.of(generator.uniform(1, 2, (N, D)), generator.normal(size=(N, D)))
    session = Session(algorithm, problem, seeds=Seeds.of(0), rounds=5, metrics=("value",))
    engine = session.engine
    compiled = jax.jit(advance, static_argnames=("sites", "metrics"), donate_argnames="progress").lower(
        engine.job, engine.algorithm, session.progress, 5, 1, 1, sites=engine.sites, metrics=engine.metrics
    )
    lines = [line for line in compiled.compile().as_text().splitlines() if f"f64[{N},{D}]" in line]
    assert any("dynamic-update-slice" in line or "scatter" in line for line in lines)
    assert not [line for line in lines if f"= f64[{N},{D}]{{1,0}} copy(" in line]
