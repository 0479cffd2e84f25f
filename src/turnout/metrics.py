"""What a run is judged by, evaluated apart from the algorithm's own events."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from turnout.engines.storage import over_rows, total
from turnout.optimum import Optimum

NAMES = ("value", "gap", "gradient", "distance", "accuracy")
"""f(x); f(x) - f(x*); |grad f(x)|^2; |x - x*|^2; the share of rows classified rightly, clients weighted by lambda."""

DIVERGED = 1e12
"""A loss, or a parameter, beyond this is taken for divergence."""


def evaluate(names: tuple[str, ...], storage, optimum: Optimum | None, x: PyTree) -> dict[str, Float[Array, ""]]:
    """Return the metrics `names` at x."""
    problem = storage.problem
    found, value = {}, jnp.zeros(())
    if "gradient" in names:
        value, gradient = jax.tree.map(jnp.add, total(storage, "value_and_grad", x), jax.value_and_grad(problem.regulariser)(x))
    elif {"value", "gap"} & set(names):
        value = total(storage, "value", x) + problem.regulariser(x)
    if "value" in names:
        found["value"] = value
    if "gap" in names:
        found["gap"] = value - jnp.asarray(optimum.value, value.dtype)
    if "gradient" in names:
        found["gradient"] = squared_norm(gradient)
    if "distance" in names:
        found["distance"] = squared_norm(jax.tree.map(lambda a, b: a - jnp.asarray(b, a.dtype), x, optimum.x))
    if "accuracy" in names:
        found["accuracy"] = over_rows(storage, lambda rows, share: share @ problem.correct(x, rows))
    return found


def squared_norm(tree: PyTree) -> Float[Array, ""]:
    """The sum of squares of all entries."""
    return jnp.stack([jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)]).sum()


def healthy(found: dict[str, Float[Array, ""]], x: PyTree) -> Bool[Array, ""]:
    """Whether the metrics are finite, and the loss, if it is among them, and all parameters below DIVERGED."""
    below = [jnp.all(jnp.abs(leaf) < DIVERGED) for leaf in jax.tree.leaves(x)]
    finite = [jnp.isfinite(value) for value in found.values()]
    return jnp.stack([found.get("value", jnp.zeros(())) < DIVERGED, *finite, *below]).all()
