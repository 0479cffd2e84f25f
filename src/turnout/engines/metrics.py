"""What a run is judged by, evaluated apart from the algorithm's own events."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.ops import segment_sum
from jaxtyping import Array, Bool, Float, PyTree

from turnout.problems.base import correct_sum, per_row
from turnout.problems.optimum import Optimum
from turnout.problems.storage.layout import objective, sum_over_rows, total
from turnout.samplers.diagnostics import NAMES as SAMPLING

TEST = ("test_value", "test_accuracy")
QUANTILES = {"accuracy_10": 0.1, "accuracy_50": 0.5, "accuracy_90": 0.9}
HELD_OUT = ("held_out_value", "held_out_accuracy", *(f"held_out_{name}" for name in QUANTILES))
NAMES = ("value", "gap", "gradient", "distance", "accuracy", *QUANTILES, *TEST, *HELD_OUT, *SAMPLING)
"""f(x); f(x) - f(x*); |grad f(x)|^2; |x - x*|^2; the share of rows classified rightly, clients weighted by lambda; the accuracy
that 10, 50 and 90 % of the clients do not exceed, each on its own rows; the mean loss, and the share classified rightly, of the
rows of a test problem, and of the union of the rows of clients held out, with the quantiles of these; and what `engines.quality`
finds of the draws: the estimator's variance, the mean since the row before, and the regrets so far."""

DIVERGED = 1e12
"""A loss, or a parameter, beyond this is taken for divergence."""


def evaluate(
    names: tuple[str, ...], storage, optimum: Optimum | None, x: PyTree, test=None, held_out=None
) -> dict[str, Float[Array, ""]]:
    """Return the metrics `names` at x, `storage` and `test` holding the rows to train and to test with, `held_out` clients that
    are never drawn."""
    return derive(names, measure(asked_for(names), storage, x), optimum, x, test, held_out)


def asked_for(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return what has to be known for the metrics `names`: some of "value", "gradient" (and then the value), "accuracy", and
    "accuracies", those of all clients."""
    value = ("gradient",) if "gradient" in names else ("value",) if {"value", "gap"} & {*names} else ()
    each = ("accuracies",) if {*QUANTILES} & {*names} else ()
    return (*value, *(("accuracy",) if "accuracy" in names else ()), *each)


def measure(names: tuple[str, ...], storage, x: PyTree) -> dict[str, PyTree]:
    """Return f(x), grad f(x) and the accuracies at x, as far as `names` of `asked_for` say, over the rows in `storage`."""
    found = {}
    if "gradient" in names:
        found["value"], found["gradient"] = objective(storage, "value_and_grad", x)
    if "value" in names:
        found["value"] = objective(storage, "value", x)
    if "accuracy" in names:
        found["accuracy"] = accuracy(storage, x)
    if "accuracies" in names:
        found["accuracies"] = accuracies(storage, x)
    return found


def derive(
    names: tuple[str, ...], measured: dict, optimum: Optimum | None, x: PyTree, test=None, held_out=None
) -> dict[str, Float[Array, ""]]:
    """Return the metrics `names` at x from what was `measured` there."""
    found = {name: measured[name] for name in ("value", "accuracy") if name in names}
    if "gap" in names:
        found["gap"] = measured["value"] - jnp.asarray(optimum.value, measured["value"].dtype)
    if "gradient" in names:
        found["gradient"] = squared_norm(measured["gradient"])
    if "distance" in names:
        found["distance"] = squared_norm(jax.tree.map(lambda a, b: a - jnp.asarray(b, a.dtype), x, optimum.x))
    if "test_value" in names:
        found["test_value"] = total(test, "value", x)
    if "test_accuracy" in names:
        found["test_accuracy"] = accuracy(test, x)
    if "held_out_value" in names:
        found["held_out_value"] = total(held_out, "value", x)
    if "held_out_accuracy" in names:
        found["held_out_accuracy"] = accuracy(held_out, x)
    found |= quantiles(names, "", lambda: measured["accuracies"])
    return found | quantiles(names, "held_out_", lambda: accuracies(held_out, x))


def quantiles(names: tuple[str, ...], prefix: str, of: Callable[[], Float[Array, " n"]]) -> dict[str, Float[Array, ""]]:
    """Return the quantiles of the accuracies that `of` gives as far as they are among `names`, which have a `prefix`."""
    wanted = {prefix + name: share for name, share in QUANTILES.items() if prefix + name in names}
    each = of() if wanted else None
    return {name: jnp.quantile(each, share) for name, share in wanted.items()}


def accuracy(storage, x: PyTree) -> Float[Array, ""]:
    """The share of rows that x classifies rightly, clients weighted by lambda."""
    return sum_over_rows(storage, lambda rows, share: correct_sum(storage.problem, x, rows, share))


def accuracies(storage, x: PyTree) -> Float[Array, " n"]:
    """The share of its own rows that x classifies rightly, of each client."""
    problem, n = storage.problem, storage.problem.clients

    def part(rows, own):
        client, share = own
        return segment_sum(share * per_row(problem, problem.correct, x, rows, share), client, n)

    return sum_over_rows(storage, part, storage.row_owners())


def squared_norm(tree: PyTree) -> Float[Array, ""]:
    """The sum of squares of all entries."""
    return jnp.stack([jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)]).sum()


def healthy(found: dict[str, Float[Array, ""]], x: PyTree) -> Bool[Array, ""]:
    """Whether the metrics are finite, and the loss, if it is among them, and all parameters below DIVERGED."""
    below = [jnp.all(jnp.abs(leaf) < DIVERGED) for leaf in jax.tree.leaves(x)]
    finite = [jnp.isfinite(value) for value in found.values()]
    return jnp.stack([found.get("value", jnp.zeros(())) < DIVERGED, *finite, *below]).all()
