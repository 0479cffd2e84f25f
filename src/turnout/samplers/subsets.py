"""Arbitrary sampling: a list of subsets with their probabilities."""

from dataclasses import field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Fraction, Index, record
from turnout.samplers.base import Sampler, as_distribution
from turnout.samplers.in_double import in_double


@record
class Subsets(Sampler):
    """One of the given subsets, S = S_k with probability q_k: p_i = sum of q_k over the k with i in S_k.

    Source: arbitrary sampling, Cohort Squeeze (Yi et al., 2024), section 2.1.

    Args:
        subsets: The subsets S_k, each a list of different clients, possibly empty; each client is in at least one.
        probability: q, positive, one for each subset, with sum 1.
        members: Set by `bind`: the clients of each subset, in rows of equal length.
        sizes: Set by `bind`: the size of each subset.
        inclusion: Set by `bind`: p [n].

    Raises:
        UserError: On binding, if the subsets or their probabilities do not fit.

    Examples:
        >>> import turnout as t
        >>> t.Subsets([[0, 1], [1, 2]], [0.25, 0.75]).bind(t.Population(count=3)).inclusion.tolist()
        [0.25, 1.0, 0.75]
    """

    subsets: list[list[Index]] | None
    probability: list[Fraction] | np.ndarray
    members: Any = field(default=None, repr=False, kw_only=True)
    sizes: Any = field(default=None, repr=False, kw_only=True)
    inclusion: Any = field(default=None, repr=False, kw_only=True)

    def bind(self, population):
        subsets, n = self.subsets or [], population.count
        p = as_distribution(self.probability, len(subsets), "subsets", "subset")
        sizes = np.array([len(subset) for subset in subsets], np.int32)
        members, inclusion = np.zeros((len(subsets), max(1, sizes.max())), np.int32), np.zeros(n)
        for k, subset in enumerate(subsets):
            _check_members(k, subset, n)
            members[k, : len(subset)] = subset
            inclusion[subset] += p[k]
        if not np.all(inclusion):
            missing = np.argmin(inclusion)
            raise UserError(f"sampler 'subsets': client {missing} is in no subset: add it to one, or no average is unbiased")
        # Rounding may give a client that is in all subsets more than 1.
        inclusion = np.minimum(inclusion, 1)
        return replace(self, subsets=None, probability=p, members=members, sizes=sizes, inclusion=inclusion)

    @in_double
    def draw(self, state, key, population):
        k = jax.random.choice(key, len(self.sizes), p=jnp.asarray(self.probability, float))
        ids = jnp.asarray(self.members)[k]
        active = jnp.arange(ids.size, dtype="int32") < jnp.asarray(self.sizes)[k]
        return Cohort.of(ids, jnp.asarray(self.inclusion)[ids], population, selection="arbitrary", active=active)


def _check_members(k: int, subset: list[int], n: int) -> None:
    for i in subset:
        if i >= n:
            raise UserError(f"sampler 'subsets': subset {k} names client {i}, but they are 0 to {n - 1}")
    if len(set(subset)) < len(subset):
        twice = next(i for i in subset if subset.count(i) > 1)
        raise UserError(f"sampler 'subsets': subset {k} names client {twice} twice: name it once")
