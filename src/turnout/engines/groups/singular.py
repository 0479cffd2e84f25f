"""Rounds after which the server makes adapters from the singular values of the mean of the clients' products."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from turnout.core.algorithm import Algorithm, Ask
from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.core.replies import Replies, if_any
from turnout.engines.groups.halves import check_differences
from turnout.problems.adapters.sites import Site
from turnout.problems.grouped import Leaves


@record
class Singular(Algorithm):
    """The rounds of an algorithm, after which B = U_r S_r and A = V_r^T of mean_i B_i A_i = U S V^T (FlexLoRA; Bai et al., 2024).

    Where a singular value is zero the row of A is drawn anew, as the first one was: V^T has any row there.

    Args:
        algorithm: The algorithm, whose replies are differences of parameters.
        sites: The matrices.
    """

    algorithm: Algorithm
    sites: tuple[Site, ...] = static()

    wraps: ClassVar[str] = "algorithm"

    cohorts_per_round = None

    @property
    def addressed(self):
        return self.algorithm.addressed

    def round(self, ask, server):
        keys = jax.random.split(ask.key(), len(self.sites))
        inside = SingularAsk(ask, self.sites, server)
        new = self.algorithm.round(inside, server)
        for site, key in zip(self.sites, keys, strict=True):
            rest = site.start(key, server[site.a].dtype)[site.a]
            a, b = factors(inside.products[site.name], rest)
            new = {**new, **if_any(inside.replies, {site.a: a, site.b: b}, {name: server[name] for name in (site.a, site.b)})}
        return new


class SingularAsk:
    """The `ask` of a round that keeps the mean of the products that clients come back with.

    Args:
        ask: The server's access to its clients.
        sites: The matrices.
        begun: The parameters that clients are sent.
    """

    replies: Replies
    products: Leaves

    def __init__(self, ask: Ask, sites: tuple[Site, ...], begun: Leaves):
        self._ask, self._sites, self._begun = ask, sites, begun

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ask, name)

    def __call__(self, who: Any, method: Any, message: Any) -> Replies:
        self.replies = self._ask(who, method, message)
        self.products = self.replies.map(self._products).mean()
        return self.replies

    def _products(self, i: Any, reply: Leaves) -> Leaves:
        """Return B_i A_i of each matrix, given what a client's A and B moved by."""
        products = {}
        for site in self._sites:
            own = site.of_client({name: self._begun[name] + reply[name] for name in (site.a, site.b)}, i)
            products[site.name] = own[site.b] @ own[site.a]
        return products


def factors(product: Float[Array, "outputs inputs"], rest: Float[Array, "r inputs"]) -> tuple[Array, Array]:
    """Return A and B of rank r whose product is nearest to a matrix.

    Args:
        product: The matrix.
        rest: The rows of A where singular values are zero.
    """
    rank = rest.shape[0]
    u, s, vt = jnp.linalg.svd(product, full_matrices=False)
    u, s, vt = u[:, :rank], s[:rank], vt[:rank]
    # Rounding decides on the signs of U and V.
    signs = jnp.sign(jnp.take_along_axis(vt, jnp.argmax(jnp.abs(vt), 1)[:, None], 1))
    zero = s <= max(product.shape) * jnp.finfo(s.dtype).eps * s[0]
    return jnp.where(zero[:, None], rest, signs * vt), jnp.where(zero[None], 0, u * signs.T * s[None])


def singular(algorithm: Algorithm, sites: tuple[Site, ...], x: Leaves) -> Algorithm:
    """Return `algorithm` with adapters of the matrices `sites` made from singular values.

    Args:
        algorithm: The algorithm.
        sites: The matrices; where there are none, the algorithm stays as it is.
        x: The first parameters.

    Raises:
        UserError: The algorithm's replies are no differences of parameters, or A or B is not among these.
    """
    if not sites:
        return algorithm
    check_differences(algorithm, x, "the server takes products and their singular values")
    apart = next((name for site in sites for name in (site.a, site.b) if name not in x), None)
    if apart is not None:
        raise UserError(
            f"the server takes singular values of products, and {apart} is not sent: leave it out of the other groups"
        )
    return Singular(algorithm, sites)
