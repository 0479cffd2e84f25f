"""What every sampler and every rule for probabilities owes: the checks of `turnout.testing` on each example."""

from functools import lru_cache

import jax.numpy as jnp
import pytest

import turnout as t
from tests.helpers.examples import PROBABILITIES, SAMPLERS, small
from turnout.testing import check as check_all
from turnout.testing.samplers import CHECKS, case

DESIGNS = {**SAMPLERS, **{f"independent-{name}": t.Independent(size=3.0, probability=p) for name, p in PROBABILITIES.items()}}
DESIGNS |= {
    f"replacement-{name}": t.WithReplacement(size=3, probability=PROBABILITIES[name]) for name in ("k-vib", "mabs", "osmd")
}


@lru_cache(1)
def case_of(name):
    """Return one case, which all checks share: they follow one another, so that nothing is compiled twice."""
    return case(DESIGNS[name], small())


LEARNT = {f"independent-{name}" for name in ("vrb", "mabs", "avare", "osmd", "a-osmd", "last-norm")}
"""Rules that tests/samplers/test_probabilities.py holds against their references, and finds unbiased too."""

REPEATED = {"replacement-k-vib", "replacement-mabs", "gradient-stratified", "shuffled-nice", "nonuniform", "subsets"}
REPEATED |= {"afl", "block", "pivotal", "des-raj", "independent-uniform", "independent-optimal", "power-of-choice", "replacement"}
"""Rules that are among those of independent draws, of which "replacement-osmd" shows that draws with replacement take them;
"independent" again; what tests/samplers and tests/engines/test_ask.py play in every engine; and designs whose law tests/samplers
checks, and of which "cube", "stratified" and "systematic" are played here."""


@pytest.mark.tiers(
    quick=[
        "cube-states_keep_their_types",
        "cube-weights_are_finite",
        "cube-draws_match_the_declared_probabilities",
        "cube-resumes_to_the_bit",
        "cube-goes_on_to_the_bit",
        "independent-k-vib-states_keep_their_types",
        "independent-k-vib-clients_are_drawn_once",
        "independent-k-vib-weights_are_finite",
        "independent-k-vib-draws_match_the_declared_probabilities",
        "independent-k-vib-resumes_to_the_bit",
        "independent-k-vib-goes_on_to_the_bit",
    ],
    slow=[
        "gradient-clustered-engines_agree",
        "oort-engines_agree",
        "divfl-engines_agree",
        "independent-delta-engines_agree",
        "independent-engines_agree",
        "stratified-*",
        "replacement-osmd-engines_agree",
        "available-engines_agree",
        "adaptive-size-*",
        "shuffled-stratified-engines_agree",
    ],
)
@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, marks=pytest.mark.everything if name in REPEATED | LEARNT else ())
        for name in DESIGNS
        for check in CHECKS
    ],
)
def test_conformance(name, check):
    CHECKS[check](case_of(name))


@t.record
class Wrong(t.Sampler):
    """Three of six clients, wrong in one way."""

    way: str = t.static()

    def start(self, population):
        return jnp.zeros((), "int32")

    def advance(self, state, key):
        return state.astype(float) if self.way == "state" else state

    def draw(self, state, key, population):
        good = t.Nice(3).draw(None, key, population)
        ids, p = good.ids, 0.5
        if self.way == "fixed":
            ids = jnp.arange(3)
        if self.way == "probability":
            p = 0.45
        if self.way == "id":
            ids = ids.at[0].set(999)
        if self.way == "negative":
            ids = ids.at[0].set(-1)
        if self.way == "twice":
            ids = ids.at[0].set(ids[1])
        if self.way == "nan":
            p = jnp.full(3, jnp.nan)
        return t.Cohort.of(ids, p, population, selection="random")


SENTENCES = {
    "fixed": "Wrong never draws client|Wrong draws client 0 in 100.0% of the draws, but declares 50.0%",
    "probability": r"Wrong draws client \d in (49|50|51).\d% of the draws, but declares 45.0%",
    "id": "999",
    "negative": "-1",
    "twice": "twice|duplicate",
    "nan": "Wrong gives drawn clients weights that are not finite|NaN|nan",
    "state": "Wrong changes its samplers state in a round",
}


@pytest.mark.tiers(quick=["state"], longer=["fixed", "negative"])
@pytest.mark.parametrize("way", SENTENCES)
def test_a_wrong_sampler_is_refused(way):
    with pytest.raises(t.UserError, match=SENTENCES[way]):
        check_all(Wrong(way), small())


@t.record
class Impure(t.Sampler):
    """Counts its draws where no engine sees it."""

    def draw(self, state, key, population):
        COUNTER.append(1)
        ids = (jnp.arange(3) + len(COUNTER)) % population.count
        return t.Cohort.of(ids, 0.5, population, selection="random", biased=True)


COUNTER: list[int] = []


@pytest.mark.slow
def test_draws_that_depend_on_more_than_the_key_are_refused():
    with pytest.raises(t.UserError, match="Impure gives another run on separate nodes than compiled"):
        check_all(Impure(), small())
