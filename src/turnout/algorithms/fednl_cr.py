"""FedNL-CR: FedNL with cubic regularisation, which converges from any start without a line search."""

import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.fednl import FedNlState, LearnedNewton
from turnout.codecs.base import Codec
from turnout.core.records import Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add, positive
from turnout.core.triangle import symmetric

HALVINGS = 200
"""Halvings of the interval in which |h| is searched, so that it is exact also where it is tiny."""


@record
class FedNlCr(LearnedNewton):
    """FedNL with cubic regularisation (Safaryan, Islamov, Qian and Richtarik, 2022, Algorithm 4), for any sampler.

    x <- x + h, h = argmin_h g.h + h.(H + l I) h / 2 + (lipschitz / 6) |h|^3, g = sum_{i in S} (lambda_i / p_i) grad f_i(x),
    H = sum_i lambda_i H_i, l = sum_{i in S} (lambda_i / p_i) |grad^2 f_i(x) - H_i|, then
    H_i <- H_i + C(grad^2 f_i(x) - H_i) for i in S.

    Messages are those of `FedNl` with option "II". Eigenvalues of H + l I below 0, which only cohorts bring about, count as 0.

    Let all clients take part, f be mu-strongly convex, |grad^2 f(x) - grad^2 f(y)| <= L |x - y|, L = `lipschitz`. Then

        f(x_{t+1}) - f(x*) <= (1 - a) (f(x_t) - f(x*)),   a = min(1 / 2, mu / (8 l), sqrt(3 mu / (8 L |x_t - x*|)))

    and near x* the rate is that of `FedNl`. Proof: f(x + h) - f(x) is at most the minimum, as H + l I >= grad^2 f(x), and for
    h = a (x* - x) what it is taken of is at most f(x + h) - f(x) + l |h|^2 + (L / 3) |h|^3; convexity pays for the last two.

    Args:
        sampler: Who takes part in each round.
        codec: C, of triangles.
        lipschitz: How fast the Hessian of f may change, > 0; max |a|^3 / (6 sqrt 3) for logistic regression with rows a.
        first: The first H_i: the "hessian" at the first x, which a pass over all clients sends whole, or "zero".
        everyone: Sampler of that pass. Set by `bind`.

    Raises:
        UserError: Where the problem has no second derivatives.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.FedNlCr(t.Full(), t.codecs.Eigenpairs(rank=1), lipschitz=1.0), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        6
    """

    codec: Codec = static()
    lipschitz: Positive

    @property
    def measures(self):
        return True

    def round(self, ask, server):
        replies, (gradient, distance), hessian = self.heard(ask, server)
        step = cubic_step(symmetric(server.hessian), distance, jnp.asarray(self.lipschitz, distance.dtype), gradient)
        return if_any(replies, FedNlState(add(server.x, step), hessian), server)


def cubic_step(hessian: Float[Array, "d d"], shift: Float[Array, ""], lipschitz: Float[Array, ""], gradient: PyTree) -> PyTree:
    """Return argmin_h g.h + h.(H + l I) h / 2 + (L / 6) |h|^3: h = -(H + l I + (L r / 2) I)^-1 g with r = |h|.

    Args:
        hessian: H.
        shift: l.
        lipschitz: L.
        gradient: g, shaped like the parameters.
    """
    flat, unravel = ravel_pytree(gradient)
    values, vectors = jnp.linalg.eigh(hessian)
    values, inside = jnp.maximum(values + shift, 0), vectors.T @ flat

    def step(r):
        return inside / positive(values + lipschitz * r / 2)

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        longer = jnp.linalg.norm(step(middle)) > middle
        return jnp.where(longer, middle, low), jnp.where(longer, high, middle)

    # As |h| <= 2 |g| / (L |h|).
    most = jnp.sqrt(2 * jnp.linalg.norm(flat) / lipschitz)
    _, r = lax.fori_loop(0, HALVINGS, halve, (jnp.zeros_like(most), most))
    return unravel(-vectors @ step(r))
