"""`Problem` and `Population`: f(x) = sum_i lambda_i f_i(x), f_i being a mean of losses over client i's rows plus a regulariser.

A problem of your own is a subclass of `Problem` with `losses` and `start`; see its example.
"""

from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.core.schema import Schema
from turnout.problems.row_formats import take

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
        """lambda_i of all clients [n], in the precision of the run."""
        return jnp.broadcast_to(self.share(jnp.arange(self.count)), (self.count,))

    @property
    def lambdas(self) -> Float[np.ndarray, " n"]:
        """lambda_i of all clients [n] in double precision, by NumPy: for what is computed before a run."""
        return np.full(self.count, 1 / self.count) if self.weights is None else np.asarray(self.weights, float)

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
    * `strongly_convex = True` if f has one minimiser, which the metrics "gap" and "distance" then compute; with a field `mu` that
      is 0 it may have several, which is found out.

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
    has_perplexity: ClassVar[bool] = False
    """Whether exp f(x) is the perplexity of a language model."""
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
    def statistics(self) -> tuple[str, ...]:
        """The names of the leaves that training moves without a gradient, as running means are; see `training`."""
        return ()

    @property
    def trains_apart(self) -> bool:
        """Whether clients train with `training` in the place of `losses`: statistics move, or numbers are drawn as by dropout."""
        return bool(self.statistics)

    @property
    def takes_keys(self) -> bool:
        """Whether `training` is given random keys, which tell it from evaluation too; a loss that is no JAX function has none."""
        return self.trains_apart

    def training(self, x: PyTree, rows: PyTree, counted: Bool[Array, " b"], key) -> tuple[Float[Array, " b"], dict]:
        """Return the loss of each of b rows in training, [b], and each of the `statistics` after this pass, by its name.

        Args:
            x: Parameters.
            rows: A batch of b rows: arrays with the first axis b.
            counted: Which rows are not padding [b].
            key: Random key of this pass.
        """
        return self.losses(x, rows, **({"counted": counted} if self.mixes_rows else {})), {}

    @property
    def sizes(self) -> Int[np.ndarray, " n"]:
        """n_i, the number of rows of each client [n]."""
        return np.diff(self.offsets)

    @property
    def row_share(self) -> Float[np.ndarray, " rows"]:
        """lambda_i / n_i for each row [rows]: f(x) = sum_r row_share_r losses_r(x) + regulariser(x)."""
        return np.repeat(self.population.lambdas / self.sizes, self.sizes)

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
