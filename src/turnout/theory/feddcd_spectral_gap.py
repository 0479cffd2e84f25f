"""How well a sampling design mixes clients whose sum is kept: the r of FedDCD's rate for any design.

The steps alpha_i (w_i - mean) of FedDCD are, in the coordinates y_i / sqrt(alpha_i), a unit step along the projection

    P_S = D_S - a_S a_S^T / |a_S|^2,   a_i = sqrt(alpha_i),   D_S = diag(1{i in S}),

onto the directions that move S only and keep sum_{i in S} y_i. In them the dual G is 1-smooth, so that the step lowers it by at
least g^T P_S g / 2, g being its gradient there. It is also min_i(alpha_i / beta_i)-strongly convex, so that, g' being the part
of g orthogonal to a, G - G* <= max_i(beta_i / alpha_i) |g'|^2 / 2. With r = `pairing`, the least eigenvalue of E[P_S]
orthogonal to a, E[G - G*] so shrinks by the factor 1 - r min_i(alpha_i / beta_i) a round: Theorem 4.1 for any design.
"""

from functools import singledispatch

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.problems.base import Population
from turnout.samplers import Sampler
from turnout.theory.designs import Listed, Repeated, Staged, design, known

DRAWS = 20_000
"""Cohorts that are drawn where E[P_S] has no closed form."""


def spectral_gap(projection: Float[np.ndarray, "n n"], convexity: Float[np.ndarray, " n"]) -> float:
    """r, the least eigenvalue of E[P_S] = `projection` on the complement of a; 0 where cohorts do not connect all clients."""
    along = np.sqrt(convexity)
    lifted = projection + np.outer(along, along) / convexity.sum()
    return float(np.clip(np.linalg.eigvalsh(lifted)[0], 0, 1))


def expected_projection(
    sampler: Sampler, population: Population, convexity: Float[np.ndarray, " n"], seed: int = 0
) -> Float[np.ndarray, "n n"]:
    """E[P_S] of the bound `sampler`, alpha_i = `convexity` > 0.

    Exact for designs that list their cohorts, and for uniform and stratified ones if the alpha_i are equal; else the mean over
    `DRAWS` cohorts drawn from `seed`, off by about 1 / sqrt(DRAWS).
    """
    law = design(sampler, population)
    if isinstance(law, Repeated):
        raise UserError("the theorems of FedDCD are about clients drawn at most once: take a sampler without replacement")
    found = exact(law, convexity)
    return simulated(sampler, population, convexity, seed) if found is None else found


@singledispatch
def exact(law, convexity: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n n"] | None:
    """E[P_S] of a law; None where there is no closed form."""
    return None


@exact.register
def _(law: Listed, convexity):
    """sum_S P(S) P_S."""
    mass = law.members @ convexity
    scaled = law.members.multiply(np.sqrt(convexity)[None]).tocsr()
    shares = np.divide(law.probability, mass, out=np.zeros_like(mass), where=mass > 0)
    return np.diag(law.inclusion()) - (scaled.T @ scaled.multiply(shares[:, None])).toarray()


@exact.register
def _(law: Staged, convexity):
    """diag(p) - P_2 / tau with pair probabilities P_2: two strata of b, s of them drawn, meet with s (s - 1) / (b (b - 1))."""
    if not all_equal(convexity):
        return None
    strata, one = law.sizes.size, law.inclusion()
    meet = law.drawn * (law.drawn - 1) / max(1, strata * (strata - 1))
    share = 1 / law.sizes[law.stratum]
    pairs = meet * np.outer(share, share) * (law.stratum[:, None] != law.stratum[None])
    return np.diag(one) - (pairs + np.diag(one)) / law.drawn


def all_equal(values: Float[np.ndarray, " n"]) -> bool:
    """Whether all are equal but for rounding."""
    return bool(np.ptp(values) <= 1e-9 * np.max(np.abs(values)))


def simulated(
    sampler: Sampler, population: Population, convexity: Float[np.ndarray, " n"], seed: int
) -> Float[np.ndarray, "n n"]:
    """The mean of P_S over `DRAWS` cohorts."""
    state, alpha = known(sampler, population), jnp.asarray(convexity)

    def step(total, key):
        cohort = sampler.draw(state, key, population)
        inside = jnp.zeros(population.count, alpha.dtype).at[cohort.ids].add(cohort.active.astype(alpha.dtype))
        mass = jnp.maximum(inside @ alpha, jnp.finfo(alpha.dtype).tiny)
        along = inside * jnp.sqrt(alpha)
        return total + jnp.diag(inside) - jnp.outer(along, along) / mass, None

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), DRAWS)
        total, _ = jax.jit(lambda keys: jax.lax.scan(step, jnp.zeros((alpha.size, alpha.size), alpha.dtype), keys))(keys)
    return np.asarray(total) / DRAWS
