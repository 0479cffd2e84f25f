"""`Adapted`: a problem whose model has low-rank adapters beside its own leaves."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.core.leaf_names import leaves_by_name
from turnout.core.records import record, static
from turnout.core.seeds import host_key
from turnout.problems.adapters.adapted_oracle import AdaptedOracle
from turnout.problems.adapters.sites import Site, sites_of
from turnout.problems.base import Problem
from turnout.problems.groups import Adapter
from turnout.problems.wrapped import Wrapped, parts_of

ADAPTERS = 2_000_033
"""Folded into the key of the first parameters for the adapters."""


@record
class Adapted(Wrapped):
    """F(W + factor B A) for a problem F, whose parameters are the leaves of F and A and B of each adapter, by name.

    `Grouped.of` makes it where a group is an `Adapter`.

    Args:
        rows: The data of all clients.
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        inner: F, without its rows.
        sites: The matrices that have adapters.
        leaves: Names of the leaves of F, in the order of its tree.
        structure: The structure of the parameters of F.
    """

    sites: tuple[Site, ...] = static()
    leaves: tuple[str, ...] = static(repr=False)
    structure: Any = static(repr=False)

    @classmethod
    def of(cls, problem: Problem, adapters: Sequence[Adapter]) -> "Adapted":
        """Return a problem with adapters.

        Args:
            problem: F.
            adapters: The groups that say which matrices have adapters.

        Raises:
            UserError: A pattern names no matrix, a matrix has two adapters, or fewer rows or columns than the rank, or ranks are
                those of another number of clients.
        """
        like = jax.eval_shape(lambda: problem.start(host_key(0)))
        leaves = leaves_by_name(like)
        sites = sites_of(leaves, adapters, problem.clients)
        return cls(*parts_of(problem), sites, tuple(leaves), jax.tree.structure(like), schema=problem.schema)

    def around(self, problem: Problem) -> "Adapted":
        """Return another problem of the same model, with the same adapters.

        Args:
            problem: The problem, without adapters.
        """
        return Adapted(*parts_of(problem), self.sites, self.leaves, self.structure, schema=problem.schema)

    @property
    def adapters(self) -> tuple[str, ...]:
        """Names of the leaves A and B."""
        return tuple(name for site in self.sites for name in (site.a, site.b))

    @property
    def fixed(self) -> tuple[str, ...]:
        """Names of the leaves that adapters freeze: each W that does not move itself, and A where B alone is trained."""
        frozen = (site.name for site in self.sites if site.trained != "stacked")
        return *frozen, *(site.a for site in self.sites if site.trained == "B")

    @property
    def stacked(self) -> tuple[Site, ...]:
        """The matrices to which the server adds the mean of products."""
        return tuple(site for site in self.sites if site.trained == "stacked")

    @property
    def by_singular_values(self) -> tuple[Site, ...]:
        """The matrices whose adapters the server makes from the singular values of the mean of products."""
        return tuple(site for site in self.sites if site.trained == "svd")

    @property
    def alternating(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the leaves A, and of the leaves B, of which one moves in each round."""
        sites = [site for site in self.sites if site.trained == "alternating"]
        return tuple(site.a for site in sites), tuple(site.b for site in sites)

    def start(self, key):
        """Return the leaves of F, which are those that it starts with, and the first A and B, by name."""
        leaves = leaves_by_name(self.inside.start(key))
        keys = jax.random.split(jax.random.fold_in(key, ADAPTERS), len(self.sites))
        for site, own in zip(self.sites, keys, strict=True):
            leaves |= site.start(own, jnp.result_type(leaves[site.name]))
        return leaves

    def whole(self, leaves: dict[str, Any]) -> PyTree:
        """Return parameters of F with these leaves, all of them by name."""
        return jax.tree.unflatten(self.structure, [leaves[name] for name in self.leaves])

    def merged(self, x: dict[str, Any]) -> PyTree:
        """Return the parameters of F that the model uses: W + factor B A in the place of each W that has an adapter.

        Args:
            x: The leaves by name, such as `trace.x`.
        """
        return self.whole({**x, **{site.name: site.merged(x) for site in self.sites}})

    def saved(self, x):
        return {**leaves_by_name(self.inside.saved(self.whole(x))), **x}

    def losses(self, x, rows, **counted):
        return self.inner.losses(self.merged(x), rows, **counted)

    def training(self, x, rows, counted, key):
        return self.inner.training(self.merged(x), rows, counted, key)

    def regulariser(self, x):
        return self.inner.regulariser(self.merged(x))

    def correct(self, x, rows, **counted):
        return self.inner.correct(self.merged(x), rows, **counted)

    def predicted(self, x, rows, **counted):
        return self.inner.predicted(self.merged(x), rows, **counted)

    def client(self, i):
        if not self.inner.remote:
            return super().client(i)
        client = self.inside.client(i)
        return self.around(client) if isinstance(client, Problem) else AdaptedOracle(client, self)
