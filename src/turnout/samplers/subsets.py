"""Any design that can be written down: subsets and their probabilities."""

from dataclasses import field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.records import Fraction, Index, record
from turnout.samplers.base import Sampler, probabilities


@record
class Subsets(Sampler):
    """S = `subsets`[k] with probability p_k = `probability`[k]: p_i = sum_{k: i in subsets[k]} p_k
    (arbitrary sampling of Cohort Squeeze, section 2.1).

    Every client must be in a subset; a subset may be empty.
    """

    subsets: list[list[Index]] | None
    probability: list[Fraction] | np.ndarray
    members: Any = field(default=None, repr=False)
    sizes: Any = field(default=None, repr=False)
    inclusion: Any = field(default=None, repr=False)

    def bind(self, population):
        subsets, n = self.subsets or [], population.count
        p = probabilities(self.probability, len(subsets), "subsets", "subset")
        sizes = np.array([len(subset) for subset in subsets], np.int32)
        members, inclusion = np.zeros((len(subsets), max(1, sizes.max())), np.int32), np.zeros(n)
        for k, subset in enumerate(subsets):
            _check(k, subset, n)
            members[k, : len(subset)] = subset
            inclusion[subset] += p[k]
        if not np.all(inclusion):
            missing = np.argmin(inclusion)
            raise UserError(f"sampler 'subsets': client {missing} is in no subset, so that no average is unbiased: add it to one")
        # One in all subsets has probability one, whatever rounding says.
        inclusion = np.minimum(inclusion, 1)
        return replace(self, subsets=None, probability=p, members=members, sizes=sizes, inclusion=inclusion)

    def draw(self, state, key, population):
        k = jax.random.choice(key, len(self.sizes), p=jnp.asarray(self.probability))
        ids = jnp.asarray(self.members)[k]
        active = jnp.arange(ids.size, dtype="int32") < jnp.asarray(self.sizes)[k]
        return Cohort.of(ids, jnp.asarray(self.inclusion)[ids], population, selection="arbitrary", active=active)


def _check(k: int, subset: list[int], n: int) -> None:
    for i in subset:
        if not 0 <= i < n:
            raise UserError(f"sampler 'subsets': subset {k} names client {i}, but they are 0 to {n - 1}")
    if len(set(subset)) < len(subset):
        twice = next(i for i in subset if subset.count(i) > 1)
        raise UserError(f"sampler 'subsets': subset {k} names client {twice} twice: name it once")
