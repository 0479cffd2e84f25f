"""What every optimiser owes: the checks of `turnout.testing` on each example."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import pytest

import turnout as t
from tests.helpers.examples import OPTIMISERS, small
from turnout.testing import check
from turnout.testing.optimisers import CHECKS, case


@lru_cache(1)
def case_of(name):
    """Return one case, which all checks share: they follow one another, so that nothing is compiled twice."""
    return case(OPTIMISERS[name], small())


@pytest.mark.tiers(
    quick=[
        "*-steps_keep_their_types",
        "*-quadratic_falls",
        "*-state_is_arrays",
        "adam-states_keep_their_types",
        "adam-goes_on_to_the_bit",
    ],
    longer=["adam-resumes_to_the_bit", "sgd-engines_agree"],
    slow=["adamw-engines_agree"],
)
@pytest.mark.parametrize("name_of_check", CHECKS)
@pytest.mark.parametrize("name", OPTIMISERS)
def test_conformance(name, name_of_check):
    CHECKS[name_of_check](case_of(name))


@t.record
class Wrong(t.optimisers.Optimiser):
    """Gradient descent, wrong in one way."""

    way: str = t.static(kw_only=True)

    def start(self, x):
        return "none" if self.way == "text" else jnp.zeros((), "int32")

    def update(self, x, gradient, state, curvature):
        sign = {"ascent": 1.0, "nan": jnp.nan}.get(self.way, -1.0)
        new = jax.tree.map(lambda x, g: x + jnp.asarray(sign * self.lr, x.dtype) * g, x, gradient)
        if self.way == "shape":
            new = jax.tree.map(lambda leaf: leaf[None], new)
        return new, state if self.way == "text" else state + (0.5 if self.way == "type" else 1)


SENTENCES = {
    "ascent": "Wrong raises |x|",
    "nan": "Wrong makes the parameters NaN or infinite",
    "shape": "Wrong changes its parameters in a step",
    "type": "Wrong (changes its state in a step|cannot be played)",
    "text": "Wrong (keeps a state that is no pytree of arrays|cannot be played)",
}


@pytest.mark.parametrize("way", SENTENCES)
def test_a_wrong_optimiser_is_refused(way):
    with pytest.raises(t.UserError, match=SENTENCES[way]):
        check(Wrong(0.1, way=way), small())
