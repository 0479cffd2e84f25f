"""What BL1 and BL2 share: clients whose Hessians are learned in orthonormal bases of their own, which the server has."""

from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from turnout.algorithms.learned_hessian import LearnedHessian, side
from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed
from turnout.core.algorithm import Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.errors import UserError
from turnout.core.records import Count, NonNegative, record, static
from turnout.core.replies import Replies
from turnout.core.triangle import size_of, symmetric, triangle


class InBasis(NamedTuple):
    """A client's basis V, and the triangle of its L."""

    basis: Float[Array, "d r"]
    learned: Float[Array, " s"]


class Oracle(NamedTuple):
    """V' (grad f_i(x) - ridge x), the triangle of V' (grad^2 f_i(x) - ridge I) V, and whether f_i has left the span of V."""

    gradient: Float[Array, " r"]
    hessian: Float[Array, " s"]
    missed: Any


@record
class LearnedBases(LearnedHessian):
    """H_i = ridge I + V_i L_i V_i' with L_i <- L_i + C(V_i' (grad^2 f_i(x) - ridge I) V_i - L_i).

    Args:
        sampler: Who takes part in each round.
        codec: C, of triangles of r x r matrices.
        rank: r; None means d.
        ridge: f_i - (ridge / 2) |x|^2 changes in the span of V_i only; None means min_i mu_i of the problem, or 0.
        first: The first L_i: that of the "hessian" at the first x, or "zero".
        everyone: Sampler of the first pass. Set by `bind`.
        clients: The number of clients. Set by `bind`.
    """

    codec: Codec = static()
    rank: Count | None = static(default=None)
    ridge: NonNegative | None = field(default=None, kw_only=True)
    clients: Count | None = static(default=None, repr=False, kw_only=True)

    where_missed = "give a larger rank, at least that of the rows of each client, as the span of a basis has to hold these"

    @property
    def passes(self):
        return True

    def bind(self, problem):
        size = ravel_pytree(problem.start(jax.random.key(0)))[0].size
        bound = replace(super().bind(problem), clients=problem.clients, rank=size if self.rank is None else self.rank)
        if bound.rank > size:
            raise UserError(f"{type(self).__name__}: rank is {self.rank}, but there are {size} parameters: take at most as many")
        if self.ridge is not None:
            return bound
        constants = problem.constants()
        return replace(bound, ridge=0.0 if constants is None else max(0.0, float(constants.convexity.min())))

    def client_state(self, x):
        return self.unit_basis(x)

    def unit_basis(self, x: PyTree) -> InBasis:
        """Return the first r unit vectors and L = 0, what both sides have before the pass, for the parameters x."""
        flat, rank = ravel_pytree(x)[0], self._rank
        return InBasis(jnp.eye(flat.size, rank, dtype=flat.dtype), jnp.zeros(size_of(rank), flat.dtype))

    @property
    def _rank(self) -> Any:
        """r, which `bind` sets where it is not given."""
        return self.rank

    def bases(self, replies: Replies, x: PyTree) -> Float[Array, "n d r"]:
        """Return the bases of all clients, unit vectors for those whose replies were lost.

        Args:
            replies: Replies of the pass, pairs of a basis and eigenvalues.
            x: The parameters.
        """
        unit = self.unit_basis(x).basis
        bases = jnp.broadcast_to(unit, (self.clients, *unit.shape))
        return bases.at[self.who_answered(replies)].set(replies.values[0], mode="drop")

    def who_answered(self, replies: Replies) -> Int[Array, " m"]:
        """Return who answered, and n where nobody did.

        Args:
            replies: Replies to an exchange.
        """
        return jnp.where(replies.answered, replies.cohort.ids, self.clients)

    def first_hessian(self, replies: Replies, x: PyTree) -> Float[Array, " t"]:
        """Return the first H = sum_i lambda_i H_i, a triangle.

        Args:
            replies: Replies of the pass, pairs of a basis and eigenvalues.
            x: The parameters.
        """
        flat = ravel_pytree(x)[0]
        ridge = triangle(jnp.asarray(self.ridge, flat.dtype) * jnp.eye(flat.size, dtype=flat.dtype))
        if self.first == "zero":
            return ridge
        return ridge + replies.map(lambda _, reply: triangle((reply[0] * reply[1][None]) @ reply[0].T)).total()

    def ask_in_bases(self, ask: Ask, who: Any, method: Any, x: PyTree) -> Replies:
        """Return the replies of `method`: pairs of what travels whole and the change of L_i, a triangle.

        Args:
            ask: Access to the clients.
            who: A cohort, or a sampler to draw one with.
            method: The local method.
            x: The parameters.
        """
        return ask_compressed(ask, who, method, x, self.codec, self.unit_basis(x).learned, contract=True, beside=True)

    def begin_with(self, client: Client, x: PyTree) -> tuple[InBasis, Float[Array, " r"], Any]:
        """Return V_i and the first L_i, the r eigenvalues in V_i, and whether there are more than r of them; d queries.

        Args:
            client: The client.
            x: The parameters.
        """
        flat = ravel_pytree(x)[0]
        matrix = client.hessian(x) - jnp.asarray(self.ridge, flat.dtype) * jnp.eye(flat.size, dtype=flat.dtype)
        values, vectors = jnp.linalg.eigh(matrix)
        order = jnp.argsort(-jnp.abs(values))
        values, basis = values[order], vectors[:, order[: self.rank]]
        learned = triangle(jnp.diag(values[: self.rank]))
        state = InBasis(basis, learned if self.first == "hessian" else jnp.zeros_like(learned))
        return state, values[: self.rank], _missing(values, values[: self.rank])

    def oracle(self, client: Client, x: PyTree) -> Oracle:
        """Return what f_i is in the client's basis; 1 + d queries.

        Args:
            client: The client.
            x: The parameters.
        """
        basis, flat = client.state.basis, ravel_pytree(x)[0]
        ridge = jnp.asarray(self.ridge, flat.dtype)
        gradient = ravel_pytree(client.grad(x))[0] - ridge * flat
        inside = basis.T @ gradient
        matrix = basis.T @ (client.hessian(x) - ridge * jnp.eye(flat.size, dtype=flat.dtype)) @ basis
        return Oracle(inside, triangle(matrix), _missing(gradient, inside))

    @on_client
    def begin(self, client, x):
        """V_i, and the eigenvalues in it, the diagonal of the first L_i; None where that is zero."""
        state, values, missed = self.begin_with(client, x)
        return Done((state.basis, values if self.first == "hessian" else None), state, queries=side(x), missed=missed)


def in_full(basis: Float[Array, "d r"], change: Float[Array, " s"]) -> Float[Array, " t"]:
    """Return the triangle of V S V', S given as a triangle.

    Args:
        basis: V.
        change: S, a triangle.
    """
    return triangle(basis @ symmetric(change) @ basis.T)


def _missing(whole: Float[Array, " d"], part: Float[Array, " r"]) -> Any:
    """Return 1 where a part of a vector in an orthonormal basis is shorter than the vector by more than rounding, else 0."""
    square = jnp.vdot(whole, whole)
    return (square - jnp.vdot(part, part) > jnp.sqrt(jnp.finfo(whole.dtype).eps) * square).astype("int32")
