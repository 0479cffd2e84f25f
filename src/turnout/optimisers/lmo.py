"""The linear minimisation oracle of Muon: the directions of a unit ball along which a linear function falls fastest."""

from functools import partial

import jax
from jax import lax
from jaxtyping import Array, Float, PyTree

from turnout.core.local_methods import norm
from turnout.core.tree import positive

COEFFICIENTS = (3.4445, -4.775, 2.0315)
"""Those of Muon's Newton-Schulz steps (Jordan et al., 2024), which lift small singular values fast, and end about 1 only."""


def lmo(gradient: PyTree, iterations) -> PyTree:
    """Return about argmin <gradient, d> over |d| <= 1, for each leaf by itself: the negative of a direction, 0 for zeros.

    The ball of a matrix G = U S V^T is that of the spectral norm, so d = -U V^T; Newton-Schulz steps
    G <- a G + (b G G^T + c (G G^T)^2) G from G / |G|_F approach it, with singular values between 0.5 and 1.5 where those of G are
    not tiny. The ball of any other leaf is that of the Euclidean norm: d = -g / |g|.

    Args:
        gradient: A tree of arrays.
        iterations: Number of Newton-Schulz steps.
    """
    return jax.tree.map(partial(_minimiser, iterations=iterations), gradient)


def _minimiser(g: Float[Array, "..."], iterations) -> Float[Array, "..."]:
    direction = -g / positive(norm(g))
    if g.ndim != 2:
        return direction
    tall = g.shape[0] > g.shape[1]
    a, b, c = COEFFICIENTS

    def newton_schulz(_, o):
        square = o @ o.T
        return a * o + (b * square + c * (square @ square)) @ o

    o = lax.fori_loop(0, iterations, newton_schulz, direction.T if tall else direction)
    return o.T if tall else o
