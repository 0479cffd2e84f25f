"""The spectral gap r of a sampling design, on which FedDCD's rate depends.

In the coordinates y_i / sqrt(alpha_i) the steps alpha_i (w_i - mean) of FedDCD are a unit step along the projection

    P_S = D_S - a_S a_S^T / |a_S|^2,   a_i = sqrt(alpha_i),   D_S = diag(1{i in S}),

onto the directions that move S only and keep sum_{i in S} y_i. In these coordinates the dual G is 1-smooth, so that the step
lowers it by at least g^T P_S g / 2, g being its gradient. G is also min_i(alpha_i / beta_i)-strongly convex, so that
G - G* <= max_i(beta_i / alpha_i) |g'|^2 / 2 for the part g' of g orthogonal to a. With r = `spectral_gap`, the least eigenvalue
of E[P_S] orthogonal to a, E[G - G*] thus shrinks by the factor 1 - r min_i(alpha_i / beta_i) a round: Theorem 4.1 for any design.
"""

from functools import singledispatch

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.core.compiling import program
from turnout.core.errors import UserError
from turnout.problems.base import Population
from turnout.samplers import Sampler
from turnout.theory.designs import Listed, Repeated, Staged, design, fixed_state

DRAWS = 20_000
"""Number of cohorts drawn where E[P_S] has no closed form."""


def spectral_gap(projection: Float[np.ndarray, "n n"], convexity: Float[np.ndarray, " n"]) -> float:
    """Return r, the least eigenvalue of E[P_S] on the complement of a; 0 where cohorts do not connect all clients.

    Args:
        projection: E[P_S] [n, n].
        convexity: alpha_i > 0 [n].

    Examples:
        >>> import numpy as np
        >>> import turnout as t
        >>> from turnout.theory.feddcd_spectral_gap import expected_projection, spectral_gap
        >>> alpha = np.ones(9)
        >>> round(spectral_gap(expected_projection(t.Nice(5), t.Population(count=9), alpha), alpha), 6)
        0.5
    """
    along = np.sqrt(convexity)
    lifted = projection + np.outer(along, along) / convexity.sum()
    return float(np.clip(np.linalg.eigvalsh(lifted)[0], 0, 1))


def expected_projection(
    sampler: Sampler, population: Population, convexity: Float[np.ndarray, " n"], seed: int = 0
) -> Float[np.ndarray, "n n"]:
    """Return E[P_S] [n, n].

    It is exact for designs that list their cohorts, and for uniform and stratified ones if the alpha_i are equal; else it is the
    mean over `DRAWS` cohorts, with errors of about 1 / sqrt(DRAWS).

    Args:
        sampler: Bound sampler.
        population: The clients.
        convexity: alpha_i > 0 [n].
        seed: Seed of the draws.

    Raises:
        UserError: If clients may be drawn more than once.
    """
    drawn = design(sampler, population)
    if isinstance(drawn, Repeated):
        raise UserError("the theorems of FedDCD are about clients drawn at most once: take a sampler without replacement")
    projection = exact(drawn, convexity)
    return simulated(sampler, population, convexity, seed) if projection is None else projection


@singledispatch
def exact(drawn, convexity: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n n"] | None:
    """Return E[P_S] of a design; None where there is no closed form.

    Args:
        drawn: The design, one of the classes of `theory.designs`.
        convexity: alpha_i > 0 [n].
    """
    return None


@exact.register
def _(listed: Listed, convexity):
    """sum_S P(S) P_S."""
    mass = listed.members @ convexity
    scaled = listed.members.multiply(np.sqrt(convexity)[None]).tocsr()
    shares = np.divide(listed.probability, mass, out=np.zeros_like(mass), where=mass > 0)
    return np.diag(listed.inclusion()) - (scaled.T @ scaled.multiply(shares[:, None])).toarray()


@exact.register
def _(staged: Staged, convexity):
    """diag(p) - P_2 / tau with pair probabilities P_2: two strata of b, s of them drawn, meet with s (s - 1) / (b (b - 1))."""
    if not all_equal(convexity):
        return None
    strata, one = staged.sizes.size, staged.inclusion()
    meet = staged.drawn * (staged.drawn - 1) / max(1, strata * (strata - 1))
    share = 1 / staged.sizes[staged.stratum]
    joint = meet * np.outer(share, share) * (staged.stratum[:, None] != staged.stratum[None])
    return np.diag(one) - (joint + np.diag(one)) / staged.drawn


def all_equal(values: Float[np.ndarray, " n"]) -> bool:
    """Return whether all values are equal up to rounding."""
    return bool(np.ptp(values) <= 1e-9 * np.max(np.abs(values)))


def simulated(
    sampler: Sampler, population: Population, convexity: Float[np.ndarray, " n"], seed: int
) -> Float[np.ndarray, "n n"]:
    """Return the mean of P_S over `DRAWS` cohorts.

    Args:
        sampler: The sampler, bound to the clients.
        population: The clients.
        convexity: alpha_i > 0 [n].
        seed: Seed of the draws.
    """
    state, alpha = fixed_state(sampler, population), jnp.asarray(convexity)

    def step(total, key):
        cohort = sampler.draw(state, key, population)
        inside = jnp.zeros(population.count, alpha.dtype).at[cohort.ids].add(cohort.active.astype(alpha.dtype))
        mass = jnp.maximum(inside @ alpha, jnp.finfo(alpha.dtype).tiny)
        along = inside * jnp.sqrt(alpha)
        return total + jnp.diag(inside) - jnp.outer(along, along) / mass, None

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), DRAWS)
        total, _ = program(lambda keys: jax.lax.scan(step, jnp.zeros((alpha.size, alpha.size), alpha.dtype), keys))(keys)
    return np.asarray(total) / DRAWS
