"""What a run is judged by, evaluated apart from the algorithm's own events."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from turnout.engines.quality import NAMES as SAMPLING
from turnout.engines.storage import objective, over_rows, total
from turnout.optimum import Optimum

TEST = ("test_value", "test_accuracy")
NAMES = ("value", "gap", "gradient", "distance", "accuracy", *TEST, *SAMPLING)
"""f(x); f(x) - f(x*); |grad f(x)|^2; |x - x*|^2; the share of rows classified rightly, clients weighted by lambda; the mean
loss, and the share classified rightly, of the rows of a test problem; and what `engines.quality` finds of the draws: the
estimator's variance, the mean since the row before, and the regrets so far."""

DIVERGED = 1e12
"""A loss, or a parameter, beyond this is taken for divergence."""


def evaluate(names: tuple[str, ...], storage, optimum: Optimum | None, x: PyTree, test=None) -> dict[str, Float[Array, ""]]:
    """Return the metrics `names` at x, `storage` and `test` holding the rows to train and to test with."""
    found, value = {}, jnp.zeros(())
    if "gradient" in names:
        value, gradient = objective(storage, "value_and_grad", x)
    elif {"value", "gap"} & set(names):
        value = objective(storage, "value", x)
    if "value" in names:
        found["value"] = value
    if "gap" in names:
        found["gap"] = value - jnp.asarray(optimum.value, value.dtype)
    if "gradient" in names:
        found["gradient"] = squared_norm(gradient)
    if "distance" in names:
        found["distance"] = squared_norm(jax.tree.map(lambda a, b: a - jnp.asarray(b, a.dtype), x, optimum.x))
    if "accuracy" in names:
        found["accuracy"] = accuracy(storage, x)
    if "test_value" in names:
        found["test_value"] = total(test, "value", x)
    if "test_accuracy" in names:
        found["test_accuracy"] = accuracy(test, x)
    return found


def accuracy(storage, x: PyTree) -> Float[Array, ""]:
    """The share of rows that x classifies rightly, clients weighted by lambda."""
    return over_rows(storage, lambda rows, share: share @ storage.problem.correct(x, rows))


def squared_norm(tree: PyTree) -> Float[Array, ""]:
    """The sum of squares of all entries."""
    return jnp.stack([jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)]).sum()


def healthy(found: dict[str, Float[Array, ""]], x: PyTree) -> Bool[Array, ""]:
    """Whether the metrics are finite, and the loss, if it is among them, and all parameters below DIVERGED."""
    below = [jnp.all(jnp.abs(leaf) < DIVERGED) for leaf in jax.tree.leaves(x)]
    finite = [jnp.isfinite(value) for value in found.values()]
    return jnp.stack([found.get("value", jnp.zeros(())) < DIVERGED, *finite, *below]).all()
