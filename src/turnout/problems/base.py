"""`Problem` and `Population`: f(x) = sum_i lambda_i f_i(x), f_i being a mean of losses over client i's rows plus a regulariser.

A problem of your own is a subclass of `Problem` with `losses` and `start`; see its example.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.core.schema import Schema
from turnout.problems.storage.row_formats import take

Precision = Literal["double", "single", "mixed"]
"""64 bits, 32 bits, or 32 bits with the clients' losses and gradients computed in bfloat16."""

ROWS_AT_ONCE = 65536
"""The default of `Problem.rows_at_once`."""


@record
class Population:
    """The clients that samplers draw from.

    Args:
        count: n, the number of clients.
        weights: lambda [n], which sum to one; None means 1/n each.
        strata: The stratum [n] of each client, counted from 0; None where there are none.
        available: Which clients [n] can be drawn now; None means all.
        presence: The probability [n] with which each client is available; None means one.
        in_flight: Clients [f] that cannot be drawn since they have a request, n in the places of others; a sampler that looks
            at it says so by `Sampler.supports_in_flight`, and for others these clients are not `available`.

    Examples:
        >>> import numpy as np
        >>> import turnout as t
        >>> t.Population(count=3, weights=np.array([0.5, 0.25, 0.25])).shares.tolist()
        [0.5, 0.25, 0.25]
    """

    count: int = static()
    weights: Float[Array | np.ndarray, " n"] | None = None
    strata: Int[Array | np.ndarray, " n"] | None = None
    available: Bool[Array, " n"] | None = None
    presence: Float[Array | np.ndarray, " n"] | None = None
    in_flight: Int[Array, " f"] | None = None

    def share(self, ids: Int[Array, " m"]) -> Float[Array, "..."]:
        """Return lambda_i [m] of the clients `ids`, or one number where all weights are equal."""
        if self.weights is None:
            return jnp.asarray(1 / self.count, jnp.result_type(float))
        return jnp.asarray(self.weights, jnp.result_type(float))[ids]

    @property
    def shares(self) -> Float[Array, " n"]:
        """lambda_i of all clients [n]."""
        return jnp.broadcast_to(self.share(jnp.arange(self.count)), (self.count,))

    @property
    def present(self) -> Bool[Array, " n"]:
        """Which clients [n] can be drawn."""
        return jnp.ones(self.count, bool) if self.available is None else jnp.asarray(self.available)


@record
class Problem:
    """f(x) = sum_i lambda_i f_i(x), f_i(x) = (1/n_i) sum_{rows r of client i} losses(x, r) + regulariser(x).

    A subclass is a record that adds its hyper-parameters as fields and defines

    * `losses(x, rows)`, the loss of each of b rows, and `start(key)`, the initial parameters, which may be any pytree;
    * `regulariser(x)`, if there is one;
    * `correct(x, rows)` together with `classifies = True`, for the metrics of accuracy;
    * `constants()`, the mu_i and L_i of the f_i, if they are known, for theory;
    * `strongly_convex = True` if f has one minimiser, which the metrics "gap" and "distance" then compute.

    All methods are JAX functions of x and rows. Their dtype follows x, so that one problem runs in each precision.

    Args:
        rows: The data of all clients: a pytree of arrays [rows, ...], client by client.
        offsets: Where each client's rows begin [n + 1]: client i has the rows `offsets[i]` to `offsets[i + 1]` - 1.
        population: The clients, with their weights lambda and strata.
        schema: The labels of the classes and the names of the features, by which rows to test with are matched.

    Examples:
        Regression with the Huber loss, three clients with 5, 10 and 15 rows of two features:

        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> import turnout as t
        >>> @t.record
        ... class Huber(t.Problem):
        ...     delta: float
        ...
        ...     def losses(self, x, rows):
        ...         features, targets = rows
        ...         error = jnp.abs(features @ x - targets)
        ...         return jnp.where(error < self.delta, error**2 / 2, self.delta * (error - self.delta / 2))
        ...
        ...     def start(self, key):
        ...         return jnp.zeros(2)
        >>> features = np.random.default_rng(0).normal(size=(30, 2))
        >>> rows = features, features @ np.array([2.0, -1.0])
        >>> problem = Huber(rows, np.array([0, 5, 15, 30]), t.Population(count=3), delta=1.0)
        >>> problem.sizes.tolist()
        [5, 10, 15]
        >>> trace = t.run(t.FedAvg(t.Nice(2), lr=0.5, steps=5), problem, rounds=20, metrics=("value",))
        >>> np.round(trace.x, 2).tolist()
        [2.0, -1.0]
    """

    example = "t.Quadratic.random(12, 5)"

    rows: PyTree
    offsets: Int[np.ndarray, " bounds"]
    population: Population
    schema: Schema | None = static(default=None, kw_only=True, repr=False)

    strongly_convex: ClassVar[bool] = False
    classifies: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = True
    remote: ClassVar[bool] = False
    precision: ClassVar[Precision] = "double"
    """The precision of a run that does not set one."""

    def losses(self, x: PyTree, rows: PyTree) -> Float[Array, " b"]:
        """Return the loss of each of b rows, [b].

        Args:
            x: Parameters.
            rows: A batch of b rows: arrays with the first axis b.
        """
        raise UserError(f"{type(self).__name__} has no losses(self, x, rows): write one")

    def start(self, key) -> PyTree:
        """Return initial parameters, random ones drawn from the JAX `key`."""
        raise UserError(f"{type(self).__name__} has no start(self, key): write one")

    def regulariser(self, x: PyTree) -> Float[Array, ""]:
        """Return the term that every f_i adds to its mean loss, 0 by default."""
        return jnp.zeros((), jnp.result_type(float))

    def correct(self, x: PyTree, rows: PyTree) -> Float[Array, " b"]:
        """Return 1 for each of b rows that x classifies correctly, else 0 (only if `classifies`).

        Args:
            x: Parameters.
            rows: A batch of b rows: arrays with the first axis b.
        """
        raise UserError(f"{type(self).__name__} does not classify, so it has no accuracy")

    def predicted(self, x: PyTree, rows: PyTree) -> Int[Array, " b"]:
        """Return the place in `codes` of the class that x gives each of b rows, -1 for none of them (only with `codes`).

        Args:
            x: Parameters.
            rows: A batch of b rows: arrays with the first axis b.
        """
        raise UserError(f"{type(self).__name__} predicts no classes")

    @property
    def clients(self) -> int:
        """n, the number of clients."""
        return self.population.count

    @property
    def codes(self) -> Float[np.ndarray, " c"] | Int[np.ndarray, " c"]:
        """The number in `rows` of each class of `schema.labels` [c]."""
        return np.zeros(0)

    @property
    def activation_bytes(self) -> int:
        """Bytes of activations between one row and its loss; 0 if they are negligible."""
        return 0

    @property
    def rows_at_once(self) -> int:
        """The largest number of rows whose losses are computed at once."""
        return ROWS_AT_ONCE

    @property
    def mixes_rows(self) -> bool:
        """Whether the loss of a row depends on the other rows of its batch, as with batch normalisation.

        Then `losses` and `correct` take a further argument `counted` [b]: which rows are not padding.
        """
        return False

    @property
    def sizes(self) -> Int[np.ndarray, " n"]:
        """n_i, the number of rows of each client [n]."""
        return np.diff(self.offsets)

    @property
    def row_share(self) -> Float[np.ndarray, " rows"]:
        """lambda_i / n_i for each row [rows]: f(x) = sum_r row_share_r losses_r(x) + regulariser(x)."""
        weights = self.population.weights
        weights = np.full(self.clients, 1 / self.clients) if weights is None else np.asarray(weights)
        return np.repeat(weights / self.sizes, self.sizes)

    def without_clients(self) -> "Problem":
        """Return what the server computes with: the same problem, without what only its clients need."""
        return replace(self, schema=None)

    def saved(self, x: PyTree) -> PyTree:
        """Return what the file of a model with the parameters x holds: x, and all else that the model needs, by name."""
        return x

    def client(self, i: int) -> "Problem":
        """Return the problem of client i alone, with its own rows only."""
        own = np.arange(self.offsets[i], self.offsets[i + 1])
        return replace(self, rows=take(self.rows, own), offsets=np.array([0, own.size]), population=Population(count=1))

    def constants(self) -> "Constants | None":
        """Return mu_i and L_i of each f_i; None if they are not known."""
        return None


class Constants(NamedTuple):
    """The convexity and smoothness of each f_i: mu_i |x - y| <= |grad f_i(x) - grad f_i(y)| <= L_i |x - y|.

    Args:
        convexity: mu_i [n].
        smoothness: L_i [n].
    """

    convexity: Float[np.ndarray, " n"]
    smoothness: Float[np.ndarray, " n"]


def loss_sum(problem, x: PyTree, rows: PyTree, weights: Float[Array, " b"]) -> Float[Array, ""]:
    """Return sum_r weights_r losses_r(x) over a batch of b rows.

    Args:
        problem: The problem.
        x: Parameters.
        rows: A batch of b rows: arrays with the first axis b.
        weights: Weight of each row [b].
    """
    losses = per_row(problem, problem.losses, x, rows, weights)
    if jnp.shape(losses) != weights.shape or not jnp.issubdtype(jnp.result_type(losses), jnp.floating):
        raise UserError(
            f"{type(problem).__name__}.losses returns {_named(losses)} for {weights.size} rows, but a loss is a floating-point "
            f"number for each row: return an array of shape ({weights.size},)"
        )
    return weights @ losses


def correct_sum(problem: Problem, x: PyTree, rows: PyTree, weights: Float[Array, " b"]) -> Float[Array, ""]:
    """Return sum_r weights_r correct_r(x) over a batch of b rows.

    Args:
        problem: The problem.
        x: Parameters.
        rows: A batch of b rows: arrays with the first axis b.
        weights: Weight of each row [b].
    """
    return weights @ per_row(problem, problem.correct, x, rows, weights)


def per_row(problem, function: Callable, x: PyTree, rows: PyTree, weights) -> Float[Array, " b"] | Int[Array, " b"]:
    """Return function(x, rows) [b] of a batch of b rows; rows of weight 0 are padding, and not `counted` where rows mix.

    Args:
        problem: The problem.
        function: Function of x and rows, with one number for each row [b].
        x: Parameters.
        rows: A batch of b rows: arrays with the first axis b.
        weights: Weight of each row [b], 0 for padding.
    """
    values = function(x, rows, counted=weights > 0) if problem.mixes_rows else function(x, rows)
    if not isinstance(values, (jax.Array, np.ndarray)):
        raise UserError(f"{type(problem).__name__}.{function.__name__} returns {_named(values)}, but needs an array: return one")
    return jnp.asarray(values)


def _named(value) -> str:
    """Return what a value is, in words."""
    if isinstance(value, (jax.Array, np.ndarray)):
        return f"{value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}"


def sum_in_chunks(problem, rows: PyTree, weights: Float[Array, " b"], part: Callable) -> PyTree:
    """Return the sum of `part(rows, weights)` over chunks of at most `problem.rows_at_once` of b rows of one client.

    Args:
        problem: The problem.
        rows: A batch of b rows: arrays with the first axis b.
        weights: Weight of each row [b].
        part: Function of rows and weights.
    """
    count, at_once = weights.size, problem.rows_at_once
    if count <= at_once:
        return part(rows, weights)
    steps = -(-count // at_once)
    # Where rows mix the result depends on the chunks, which must not depend on the padding of a client's rows.
    size = at_once if problem.mixes_rows else -(-count // steps)

    def step(k, sums):
        index = k * size + jnp.arange(size)
        inside, index = index < count, jnp.minimum(index, count - 1)
        return jax.tree.map(jnp.add, sums, part(take(rows, index), jnp.where(inside, weights[index], 0)))

    empty = jax.eval_shape(lambda: part(take(rows, jnp.arange(size)), weights[:size]))
    return lax.fori_loop(0, steps, step, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), empty))


def derivative(order: str, f: Callable) -> Callable:
    """Return the oracle `order` of f: "value" (x), "value_and_grad" (x) or "hvp" (x, v), the Hessian at x times v.

    Args:
        order: "value", "value_and_grad" or "hvp".
        f: The function.
    """
    if order == "value":
        return f
    if order == "value_and_grad":
        return jax.value_and_grad(f)
    return lambda x, v: jax.jvp(jax.grad(f), (x,), (v,))[1]
