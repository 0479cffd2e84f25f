"""Metrics of a run, which are evaluated without cost in the ledger."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import jax
import jax.numpy as jnp
from jax.ops import segment_sum
from jaxtyping import Array, Bool, Float, PyTree

from turnout.engines.groups.evaluation import PersonalModels
from turnout.problems.optimum import Optimum
from turnout.problems.row_sums import correct_sum, per_row
from turnout.problems.storage.fetched import Fetched
from turnout.problems.storage.layout import objective, total
from turnout.samplers.diagnostics import NAMES as SAMPLING

TEST = ("test_value", "test_accuracy", "test_perplexity")
QUANTILES = {"accuracy_10": 0.1, "accuracy_50": 0.5, "accuracy_90": 0.9}
OVER_CLIENTS = (*QUANTILES, "accuracy_worst_decile", "accuracy_spread")
HELD_OUT = ("held_out_value", "held_out_accuracy", "held_out_perplexity", *(f"held_out_{name}" for name in OVER_CLIENTS))
ERRORS = {"value": "value_error", "gap": "value_error", "accuracy": "accuracy_error"}
"""Metrics that can be estimated from a sample of clients, and the names of their standard errors."""

WHOLE = ("gradient", "dual_gap", *SAMPLING)
"""Metrics that need all clients."""

NAMES = (
    "value", "value_error", "perplexity", "gap", "gradient", "distance", "dual_gap", "accuracy", "accuracy_error",
    *OVER_CLIENTS, *TEST, *HELD_OUT, *SAMPLING,
)  # fmt: skip
"""Names of all metrics:

* value_error, accuracy_error: their standard errors, where f is evaluated on a sample of clients;
* value, gap, gradient, distance: f(x), f(x) - f(x*), |grad f(x)|^2, |x - x*|^2;
* perplexity: exp f(x) of a language model;
* dual_gap: G(y) - G* of a dual method, see `turnout.engines.dual_gap`;
* accuracy: the share of rows that x classifies correctly, clients weighted by lambda;
* accuracy_10, accuracy_50, accuracy_90: quantiles over clients of the accuracy on their own rows;
* accuracy_worst_decile: the mean of these accuracies over the worst tenth of the clients, rounded up;
* accuracy_spread: their standard deviation, a measure of fairness (Li et al., Fair resource allocation, 2020);
* test_value, test_accuracy, test_perplexity: mean loss, accuracy and perplexity on the rows of the test problem;
* held_out_...: the same for all rows of the held-out clients together, and the other three kinds over these clients;
* variance, regret, static_regret: quality of the sampler's draws, see `turnout.samplers.diagnostics`.
"""

DIVERGED = 1e12
"""A run has diverged where the loss or a parameter exceeds this."""


EMPTY: Mapping = MappingProxyType({})


def evaluate(
    names: tuple[str, ...], storage, optimum: Optimum | None, x: PyTree, test=None, held_out=None, apart: Mapping = EMPTY
) -> dict[str, Float[Array, ""]]:
    """Return the metrics `names` at x, on the rows in `storage`, `test` and `held_out`.

    Args:
        names: Names of the metrics.
        storage: Rows of all clients.
        optimum: The minimiser; None where no metric needs it.
        x: Parameters.
        test: Rows of the test set.
        held_out: Rows of the held-out clients.
        apart: What was measured at x of "test" or "held_out" where their rows are not here.
    """
    return derive(names, measure(asked_for(names), storage, x), optimum, x, test, held_out, apart)


def asked_for(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return which functions of the training rows the metrics `names` need.

    These are "value", "gradient" (which includes the value), "accuracy" and "accuracies" (one for each client).
    """
    value = ("gradient",) if "gradient" in names else ("value",) if {"value", "gap", "perplexity"} & {*names} else ()
    each = ("accuracies",) if {*OVER_CLIENTS} & {*names} else ()
    return (*value, *(("accuracy",) if "accuracy" in names else ()), *each)


def measure(names: tuple[str, ...], storage, x: PyTree) -> dict[str, PyTree]:
    """Return the functions `names` (see `asked_for`) of the rows in `storage` at x.

    Args:
        names: Names of `asked_for`.
        storage: Rows of all clients.
        x: Parameters.
    """
    if isinstance(storage, Fetched) and storage.sample is not None:
        return of_sample(names, storage, x)
    values = {}
    if "gradient" in names:
        values["value"], values["gradient"] = of_f(storage, "value_and_grad", x)
    if "value" in names:
        values["value"] = of_f(storage, "value", x)
    if "accuracy" in names:
        values["accuracy"] = accuracy(storage, x)
    if "accuracies" in names:
        values["accuracies"] = accuracies(storage, x)
    return values


def of_f(storage, order: str, x: PyTree) -> PyTree:
    """Return the oracle `order` ("value", "value_and_grad") of f.

    Args:
        storage: Rows of all clients.
        order: "value" or "value_and_grad".
        x: Parameters, or the models of all clients.
    """
    return x.mean_of(order, storage) if isinstance(x, PersonalModels) else objective(storage, order, x)


def derive(
    names: tuple[str, ...], measured: dict, optimum: Optimum | None, x: PyTree, test=None, held_out=None, apart: Mapping = EMPTY
) -> dict[str, Float[Array, ""]]:
    """Return the metrics `names` at x from what was `measured` there.

    Args:
        names: Names of the metrics.
        measured: Result of `measure` at x.
        optimum: The minimiser; None where no metric needs it.
        x: Parameters.
        test: Rows of the test set.
        held_out: Rows of the held-out clients.
        apart: What was measured at x of "test" or "held_out" where their rows are not here.
    """
    values = {name: measured[name] for name in ("value", "value_error", "accuracy", "accuracy_error") if name in names}
    if "perplexity" in names:
        values["perplexity"] = jnp.exp(measured["value"])
    if "gap" in names:
        values["gap"] = measured["value"] - jnp.asarray(optimum.value, measured["value"].dtype)
    if "gradient" in names:
        values["gradient"] = squared_norm(measured["gradient"])
    if "distance" in names:
        values["distance"] = squared_norm(jax.tree.map(lambda a, b: a - jnp.asarray(b, a.dtype), x, optimum.x))
    values |= over_clients(names, "", lambda: measured["accuracies"])
    for prefix, rows in (("test_", test), ("held_out_", held_out)):
        here, new = apart.get(prefix.removesuffix("_")), prefix == "held_out_"
        asked = {f"{prefix}value", f"{prefix}perplexity"} & {*names}
        if asked:
            loss = mean_loss(rows, x, new) if here is None else here["value"]
            values |= {name: loss if name.endswith("value") else jnp.exp(loss) for name in asked}
        if f"{prefix}accuracy" in names:
            values[f"{prefix}accuracy"] = accuracy(rows, x, new) if here is None else here["accuracy"]
        each = (lambda here=here: here["accuracies"]) if here else partial(accuracies, rows, x, new)
        values |= over_clients(names, prefix, each)
    return values


def of_sample(names: tuple[str, ...], storage: Fetched, x: PyTree) -> dict[str, PyTree]:
    """Return estimates of the functions `names` from a sample of e clients, with the standard errors of the means.

    f is the mean of y_i = n lambda_i f_i over all clients, and its estimate that over the sample; its standard error is
    sqrt((1 - e / n) s^2 / e), s^2 being the sample variance of the y_i (Cochran, 1977, Theorem 2.2).

    Args:
        names: Names of `asked_for`.
        storage: The clients.
        x: Parameters.
    """
    problem, n, e = storage.problem, storage.problem.clients, storage.judges
    share = n * jnp.broadcast_to(problem.population.share(jnp.asarray(storage.sample)), (e,))

    def each(name):
        if isinstance(x, PersonalModels):
            return x.of_each(name, storage)
        function, rest = {"value": (problem.losses, problem.regulariser), "accuracy": (problem.correct, lambda x: 0.0)}[name]
        return storage.of_each(lambda rows, weights: per_row(problem, function, x, rows, weights)) + rest(x)

    values = {}
    for name in ("value", "accuracy"):
        if name in names:
            y = share * each(name)
            values |= {name: jnp.mean(y), ERRORS[name]: jnp.sqrt((1 - e / n) * jnp.var(y, ddof=1) / e)}
    if "accuracies" in names:
        values["accuracies"] = each("accuracy")
    return values


def mean_loss(storage, x: PyTree, new: bool) -> Float[Array, ""]:
    """Return the mean loss of rows at x, without the regulariser, clients weighted by lambda.

    Args:
        storage: Rows of all clients.
        x: Parameters, or the models of all clients.
        new: Whether these clients never took part.
    """
    return x.mean_of("loss", storage, new) if isinstance(x, PersonalModels) else total(storage, "value", x)


def over_clients(names: tuple[str, ...], prefix: str, of: Callable[[], Float[Array, " n"]]) -> dict[str, Float[Array, ""]]:
    """Return what is among `names` of quantiles, worst decile and spread of the accuracies `of()`, each name after a `prefix`.

    Args:
        names: Names of the metrics.
        prefix: "" or "held_out_".
        of: Returns the accuracy of each client [n].
    """
    wanted = [name for name in OVER_CLIENTS if prefix + name in names]
    each = of() if wanted else jnp.zeros(1)
    worst = -(-each.shape[0] // 10)
    values = {
        **{name: lambda share=share: jnp.quantile(each, share) for name, share in QUANTILES.items()},
        "accuracy_worst_decile": lambda: jnp.mean(jnp.sort(each)[:worst]),
        "accuracy_spread": lambda: jnp.std(each),
    }
    return {prefix + name: values[name]() for name in wanted}


def accuracy(storage, x: PyTree, new: bool = False) -> Float[Array, ""]:
    """Return the share of rows that x classifies correctly, clients weighted by lambda.

    Args:
        storage: Rows of all clients.
        x: Parameters, or the models of all clients.
        new: Whether these clients never took part.
    """
    if isinstance(x, PersonalModels):
        return x.mean_of("accuracy", storage, new)
    return storage.sum_over_rows(lambda rows, share: correct_sum(storage.problem, x, rows, share))


def accuracies(storage, x: PyTree, new: bool = False) -> Float[Array, " n"]:
    """Return for each client the share of its rows that x classifies correctly.

    Args:
        storage: Rows of all clients.
        x: Parameters, or the models of all clients.
        new: Whether these clients never took part.
    """
    if isinstance(x, PersonalModels):
        return storage.of_all_clients(x.of_each("accuracy", storage, new))
    problem, n = storage.problem, storage.problem.clients

    def part(rows, own):
        client, share = own
        return segment_sum(share * per_row(problem, problem.correct, x, rows, share), client, n)

    return storage.sum_over_rows(part, by_client=True)


def squared_norm(tree: PyTree) -> Float[Array, ""]:
    """Return the sum of squares of all entries."""
    return jnp.stack([jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree)]).sum()


def healthy(values: dict[str, Float[Array, ""]], x: PyTree) -> Bool[Array, ""]:
    """Return whether all metrics are finite, and the loss, if it is among them, and all parameters are below `DIVERGED`.

    Args:
        values: Metrics by name.
        x: Parameters.
    """
    below = [jnp.all(jnp.abs(leaf) < DIVERGED) for leaf in jax.tree.leaves(x)]
    finite = [jnp.isfinite(value) for value in values.values()]
    return jnp.stack([values.get("value", jnp.zeros(())) < DIVERGED, *finite, *below]).all()
