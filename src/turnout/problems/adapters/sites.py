"""The matrices of a model that have adapters."""

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from turnout.core.errors import UserError
from turnout.problems.groups import Adapter, matches, shown

KERNEL = 4
"""The number of axes of a convolution's kernel [outputs, inputs, h, w], which is a matrix [outputs, inputs h w]."""


class Site(NamedTuple):
    """A matrix W [outputs, inputs] with an adapter: the model uses W + factor B A, with A [rank, inputs] and B [outputs, rank].

    Args:
        name: Name of the leaf W.
        shape: Its shape.
        rank: r.
        alpha: The factor is alpha / r.
        inputs_first: Whether the leaf is W transposed.
        trained: "both" A and B, "B" alone, one after the other, "alternating", "stacked" or "svd".
        ranks: Rank of each client, if they differ.
    """

    name: str
    shape: tuple[int, ...]
    rank: int
    alpha: float
    inputs_first: bool
    trained: str
    ranks: tuple[int, ...] | None = None

    @property
    def a(self) -> str:
        """Name of the leaf A."""
        return f"{self.name}.lora_A"

    @property
    def b(self) -> str:
        """Name of the leaf B."""
        return f"{self.name}.lora_B"

    @property
    def factor(self) -> float:
        """The factor of B A: alpha / r."""
        return self.alpha / self.rank

    @property
    def outputs(self) -> int:
        """The number of rows of W."""
        return self.shape[1] if self.inputs_first else self.shape[0]

    @property
    def inputs(self) -> int:
        """The number of columns of W."""
        return self.shape[0] if self.inputs_first else prod(self.shape[1:])

    def start(self, key, dtype) -> dict[str, Array]:
        """Return the first A and B: A from U[-1/sqrt(inputs), 1/sqrt(inputs)], as PEFT draws it, and B = 0.

        Args:
            key: Random key.
            dtype: Their type.
        """
        bound = self.inputs**-0.5
        a = jax.random.uniform(key, (self.rank, self.inputs), dtype, -bound, bound)
        return {self.a: a, self.b: jnp.zeros((self.outputs, self.rank), dtype)}

    def leaf(self, matrix: Float[Array | np.ndarray, "outputs inputs"]) -> Any:
        """Return a matrix in the shape of the leaf."""
        return matrix.T if self.inputs_first else matrix.reshape(self.shape)

    def matrix(self, leaf: Any) -> Any:
        """Return what has the shape of the leaf as a matrix [outputs, inputs]."""
        return leaf.T if self.inputs_first else leaf.reshape(self.outputs, self.inputs)

    def of_client(self, leaves: dict[str, Any], i: Any) -> dict[str, Any]:
        """Return leaves with zeros in the place of the rows of A and the columns of B that client i does not have.

        Args:
            leaves: Leaves by name, with A and B or one of them.
            i: The client.
        """
        if self.ranks is None:
            return leaves
        # Clients in NumPy would wait for JAX.
        numbers = jnp if isinstance(i, Tracer) else np
        has, own = numbers.arange(self.rank) < numbers.asarray(self.ranks)[i], dict(leaves)
        for name, part in ((self.a, has[:, None]), (self.b, has[None])):
            if name in leaves:
                leaf = leaves[name]
                own[name] = (jnp if isinstance(leaf, jax.Array) else np).where(part, leaf, leaf.dtype.type(0))
        return own

    def merged(self, leaves: dict[str, Any]) -> Any:
        """Return the leaf that the model uses: W + factor B A.

        Args:
            leaves: The leaves by name, with W, A and B.
        """
        return leaves[self.name] + self.leaf(self.factor * (leaves[self.b] @ leaves[self.a]))


def sites_of(leaves: dict[str, Any], adapters: Iterable[Adapter], clients: int) -> tuple[Site, ...]:
    """Return the matrices that have adapters.

    Args:
        leaves: All leaves of the model by name, or their shapes and types.
        adapters: The groups.
        clients: n, the number of clients.

    Raises:
        UserError: A pattern names no matrix, a matrix has two adapters, or fewer rows or columns than the rank, or ranks are
            those of another number of clients.
    """
    sites: dict[str, Site] = {}
    for adapter in adapters:
        if adapter.ranks is not None and len(adapter.ranks) != clients:
            raise UserError(f"Adapter.ranks has {len(adapter.ranks)} ranks for {clients} clients: give each client one")
        for pattern in adapter.leaves:
            found = [name for name in leaves if matches(name, pattern)]
            if not found:
                raise UserError(f"Adapter {pattern!r} is no part of the model, which has {shown(leaves)}: name one of these")
            matrices = [name for name in found if _is_matrix(leaves[name])]
            if not matrices:
                raise UserError(
                    f"Adapter {pattern!r} names {found[0]} of shape {leaves[found[0]].shape}, but adapters are of matrices and "
                    "kernels of convolutions: name one of these"
                )
            for name in matrices:
                site = _site(name, leaves[name].shape, adapter)
                if sites.setdefault(name, site) != site:
                    raise UserError(f"{name} has two adapters: give each matrix one")
    return tuple(sites[name] for name in leaves if name in sites)


def _is_matrix(leaf: Any) -> bool:
    return leaf.ndim in (2, KERNEL) and jnp.issubdtype(leaf.dtype, jnp.floating)


def _site(name: str, shape: tuple[int, ...], adapter: Adapter) -> Site:
    alpha = adapter.rank if adapter.alpha is None else adapter.alpha
    first = adapter.inputs_first and len(shape) != KERNEL
    site = Site(name, tuple(shape), adapter.rank, float(alpha), first, adapter.trained, adapter.ranks)
    if site.rank > min(site.outputs, site.inputs):
        raise UserError(
            f"an adapter of rank {site.rank} of {name} is larger than this matrix of {site.outputs} rows and {site.inputs} "
            "columns: lower the rank, or leave it out"
        )
    return site
