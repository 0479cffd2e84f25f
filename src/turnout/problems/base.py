"""What is minimised: f(x) = sum_i lambda_i f_i(x), each f_i a mean of losses over client i's rows plus a regulariser."""

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
from turnout.problems.storage.row_formats import row_count, take

Precision = Literal["double", "single", "mixed"]
"""64 or 32 bits; "mixed" is 32 with the clients' losses and gradients computed in bfloat16."""

ROWS_AT_ONCE = 65536
"""Rows that are passed over at once, unless the problem says otherwise."""


@record
class Population:
    """n = `count` clients with weights lambda [n] that sum to one (None: uniform) and strata [n] (None: not given).

    For a draw, `available` [n] tells who can be drawn, which each is with the chance `presence` [n]; None means that all can.
    """

    count: int = static()
    weights: Float[Array | np.ndarray, " n"] | None = None
    strata: Int[Array | np.ndarray, " n"] | None = None
    available: Bool[Array, " n"] | None = None
    presence: Float[Array | np.ndarray, " n"] | None = None

    def share(self, ids: Int[Array, " m"]) -> Float[Array, "..."]:
        """lambda_i of the clients `ids`, as one number where all are equal."""
        if self.weights is None:
            return jnp.asarray(1 / self.count, jnp.result_type(float))
        return jnp.asarray(self.weights, jnp.result_type(float))[ids]

    @property
    def shares(self) -> Float[Array, " n"]:
        """lambda_i of all clients."""
        return jnp.broadcast_to(self.share(jnp.arange(self.count)), (self.count,))

    @property
    def present(self) -> Bool[Array, " n"]:
        """Who can be drawn."""
        return jnp.ones(self.count, bool) if self.available is None else jnp.asarray(self.available)


@record
class Problem:
    """f = sum_i lambda_i f_i with f_i(x) = (1/n_i) sum_{r of client i} losses(x, r) + regulariser(x).

    `rows` is a pytree whose arrays share their leading axis, client by client: client i owns rows `offsets[i]` to
    `offsets[i + 1]`. A subclass adds its own hyper-parameters and writes `losses`, `start` and, where there is one, `correct`.
    """

    rows: PyTree
    offsets: Int[np.ndarray, " bounds"]
    population: Population

    strongly_convex: ClassVar[bool] = False
    classifies: ClassVar[bool] = False
    twice_differentiable: ClassVar[bool] = True
    remote: ClassVar[bool] = False
    precision: ClassVar[Precision] = "double"
    """In which a run is played that does not say otherwise."""

    def losses(self, x: PyTree, rows: PyTree) -> Float[Array, " b"]:
        """Return the loss of each of b rows."""
        raise UserError(f"{type(self).__name__} has no losses(self, x, rows): write one")

    def start(self, key) -> PyTree:
        """Return initial parameters."""
        raise UserError(f"{type(self).__name__} has no start(self, key): write one")

    def regulariser(self, x: PyTree) -> Float[Array, ""]:
        """Return what every f_i adds to its mean loss."""
        return jnp.zeros((), jnp.result_type(float))

    def correct(self, x: PyTree, rows: PyTree) -> Float[Array, " b"]:
        """Return 1 for each of b rows that x classifies rightly, else 0 (only where `classifies`)."""
        raise UserError(f"{type(self).__name__} does not classify, so it has no accuracy")

    @property
    def clients(self) -> int:
        return self.population.count

    @property
    def activation_bytes(self) -> int:
        """Bytes that the results between a row and its loss take, where these are many; 0 where they do not matter."""
        return 0

    @property
    def rows_at_once(self) -> int:
        """How many rows are passed over at once at most."""
        return ROWS_AT_ONCE

    @property
    def mixes_rows(self) -> bool:
        """Whether the loss of a row depends on the others at hand; then `losses` and `correct` are told which are `counted`."""
        return False

    @property
    def sizes(self) -> Int[np.ndarray, " n"]:
        """n_i, the rows of each client."""
        return np.diff(self.offsets)

    @property
    def row_share(self) -> Float[np.ndarray, " rows"]:
        """lambda_i / n_i for each row, so that f(x) = sum_r row_share_r losses_r(x) + regulariser(x)."""
        weights = self.population.weights
        weights = np.full(self.clients, 1 / self.clients) if weights is None else np.asarray(weights)
        return np.repeat(weights / self.sizes, self.sizes)

    def client(self, i: int) -> "Problem":
        """Return the problem that client i holds: its own rows and no other."""
        mine = np.arange(self.offsets[i], self.offsets[i + 1])
        return replace(self, rows=take(self.rows, mine), offsets=np.array([0, mine.size]), population=Population(count=1))

    def constants(self) -> "Constants | None":
        """Return mu_i and L_i of each client's f_i; None where they are not known."""
        return None

    def describe(self) -> dict:
        """Return the facts of this problem that a summary reports."""
        return {"clients": self.clients, "rows": row_count(self.rows)}


class Constants(NamedTuple):
    """mu_i and L_i of each f_i: mu_i |x - y| <= |grad f_i(x) - grad f_i(y)| <= L_i |x - y|, both [n]."""

    convexity: Float[np.ndarray, " n"]
    smoothness: Float[np.ndarray, " n"]


def loss_sum(problem, x: PyTree, rows: PyTree, weights: Float[Array, " b"]) -> Float[Array, ""]:
    """sum_r weights_r losses_r(x) over a batch of b rows."""
    return weights @ per_row(problem, problem.losses, x, rows, weights)


def correct_sum(problem: Problem, x: PyTree, rows: PyTree, weights: Float[Array, " b"]) -> Float[Array, ""]:
    """sum_r weights_r correct_r(x) over a batch of b rows."""
    return weights @ per_row(problem, problem.correct, x, rows, weights)


def per_row(problem, function: Callable, x: PyTree, rows: PyTree, weights) -> Float[Array, " b"]:
    """Return `function`(x, rows) of a batch of b rows; those without weight fill places up, and have no say where rows mix."""
    return function(x, rows, counted=weights > 0) if problem.mixes_rows else function(x, rows)


def sum_in_chunks(problem, rows: PyTree, weights: Float[Array, " b"], part: Callable) -> PyTree:
    """Sum `part(rows, weights)` over b rows of one client, at most `problem.rows_at_once` of them at a time."""
    count, at_once = weights.size, problem.rows_at_once
    if count <= at_once:
        return part(rows, weights)
    steps = -(-count // at_once)
    # Where rows mix it matters which ones are together, and what a client's rows were filled up to should not.
    size = at_once if problem.mixes_rows else -(-count // steps)

    def step(k, sums):
        index = k * size + jnp.arange(size)
        inside, index = index < count, jnp.minimum(index, count - 1)
        return jax.tree.map(jnp.add, sums, part(take(rows, index), jnp.where(inside, weights[index], 0)))

    empty = jax.eval_shape(lambda: part(take(rows, jnp.arange(size)), weights[:size]))
    return lax.fori_loop(0, steps, step, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), empty))


def derivative(order: str, f: Callable) -> Callable:
    """Turn f(x) into its oracle: "value" (x), "value_and_grad" (x) or "hvp" (x, v)."""
    if order == "value":
        return f
    if order == "value_and_grad":
        return jax.value_and_grad(f)
    return lambda x, v: jax.jvp(jax.grad(f), (x,), (v,))[1]
