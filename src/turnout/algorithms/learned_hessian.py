"""What the algorithms of FedNL share: clients whose Hessians the server learns from compressed differences."""

import math
from dataclasses import field, replace
from typing import Any, Literal

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compress
from turnout.core.algorithm import Algorithm, Ask
from turnout.core.client import Client
from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.core.replies import Replies
from turnout.core.triangle import size_of, symmetric, triangle
from turnout.samplers import Full, Sampler
from turnout.samplers.full_pass import full_pass


@record
class LearnedHessian(Algorithm):
    """H_i <- H_i + C(grad^2 f_i(x) - H_i) at the clients, and H = sum_i lambda_i H_i at the server, both as triangles.

    Args:
        sampler: Who takes part in each round.
        codec: C, of the triangle of a matrix.
        first: The first H_i: the "hessian" at the first x, which a pass over all clients sends whole, or "zero".
        everyone: Sampler of that pass. Set by `bind`.
    """

    sampler: Sampler
    codec: Codec | None = static()
    first: Literal["hessian", "zero"] = static(default="hessian", kw_only=True)
    everyone: Sampler = field(default=Full(), repr=False, kw_only=True)

    cohorts_per_round = None

    def bind(self, problem) -> Any:
        check_second_derivatives(self, problem)
        return replace(self, everyone=full_pass(self.sampler, problem.population)) if self.passes else self

    @property
    def passes(self) -> bool:
        """Whether `start` asks everyone."""
        return self.first == "hessian"

    def ask_differences(self, ask: Ask, who: Any, method: Any, x: PyTree) -> Replies:
        """Return the replies of `method`: pairs of what travels whole and the change of H_i, a triangle.

        Args:
            ask: Access to the clients.
            who: A cohort, or a sampler to draw one with.
            method: The local method.
            x: The parameters.
        """
        return ask_compressed(ask, who, method, x, self.codec, zero_triangle(x), contract=True, beside=True)

    def learn(self, client: Client, hessian: Float[Array, " t"], learned: Float[Array, " t"], key) -> tuple[PyTree, Any]:
        """Return the payload of the change of H_i, and the new H_i.

        Args:
            client: The client.
            hessian: grad^2 f_i(x), a triangle.
            learned: H_i, a triangle.
            key: The key that came with the message.
        """
        payload, change = compress(self.codec, hessian - learned, client, key, contract=True)
        return payload, learned + change


def zero_triangle(x: PyTree) -> Float[Array, " t"]:
    """Return the triangle of the matrix of zeros for the parameters x."""
    flat = ravel_pytree(x)[0]
    return jnp.zeros(size_of(flat.size), flat.dtype)


def side(x: PyTree) -> int:
    """Return d, the number of numbers in x: the queries of a Hessian."""
    return ravel_pytree(x)[0].size


def hessian_of(client: Client, x: PyTree) -> Float[Array, " t"]:
    """Return the triangle of grad^2 f_i(x); it takes d queries."""
    return triangle(client.hessian(x))


def projected_step(hessian: Float[Array, " t"], mu: Any, gradient: PyTree) -> PyTree:
    """Return -H_mu^-1 g, where H_mu is the matrix nearest to H with eigenvalues of at least mu.

    Args:
        hessian: H, a triangle.
        mu: mu.
        gradient: g, shaped like the parameters.
    """
    flat, unravel = ravel_pytree(gradient)
    values, vectors = jnp.linalg.eigh(symmetric(hessian))
    return unravel(-vectors @ ((vectors.T @ flat) / jnp.maximum(values, jnp.asarray(mu, values.dtype))))


def shifted_solution(hessian: Float[Array, " t"], shift: Float[Array, ""], vector: PyTree) -> PyTree:
    """Return (H + l I)^-1 v.

    Args:
        hessian: H, a triangle.
        shift: l.
        vector: v, shaped like the parameters.
    """
    flat, unravel = ravel_pytree(vector)
    matrix = symmetric(hessian)
    return unravel(jnp.linalg.solve(matrix + shift * jnp.eye(flat.size, dtype=flat.dtype), flat))


def check_second_derivatives(algorithm: Algorithm, problem) -> None:
    """Check that `problem` has the second derivatives that `algorithm` needs.

    Args:
        algorithm: Who asks.
        problem: The problem.

    Raises:
        UserError: If not.
    """
    if not problem.twice_differentiable:
        name, kind = type(algorithm).__name__, type(problem).__name__
        raise UserError(f"{name} needs second derivatives: {kind} has none, take a first-order algorithm")


def mean_constants(problem) -> tuple[float, float]:
    """Return sum_i lambda_i mu_i and sum_i lambda_i L_i, between which f curves; 0 and infinity where they are not known.

    Args:
        problem: The problem.
    """
    constants, shares = problem.constants(), problem.population.shares
    if constants is None:
        return 0.0, math.inf
    return float(shares @ constants.convexity), float(shares @ constants.smoothness)


def with_mu(algorithm: Any, problem) -> Any:
    """Return `algorithm` with mu = sum_i lambda_i mu_i, by which f is strongly convex, where none is given.

    Args:
        algorithm: A record with a field `mu`.
        problem: The problem.

    Raises:
        UserError: Where the problem does not know it, or it is 0.
    """
    if algorithm.mu is not None:
        return algorithm
    convexity, _ = mean_constants(problem)
    if not convexity > 0:
        raise UserError(f"{type(algorithm).__name__} needs mu: {type(problem).__name__} does not know how convex f is")
    return replace(algorithm, mu=convexity)
