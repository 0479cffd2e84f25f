"""Rounds in which clients train adapters anew, and the server adds the mean of the products to the matrices."""

from typing import Any

import jax
import jax.numpy as jnp

from turnout.core.algorithm import Algorithm, Ask
from turnout.core.errors import UserError
from turnout.core.records import record, static
from turnout.core.replies import Replies, if_any
from turnout.engines.groups.halves import HalfAsk, Halves, check_differences
from turnout.problems.adapters.sites import Site
from turnout.problems.grouped import Leaves
from turnout.samplers.base import samplers_in


@record
class Stacked(Halves):
    """The rounds of an algorithm from a new A and B = 0, after which W <- W + factor mean_i B_i A_i (FLoRA; Wang et al., 2024).

    Args:
        algorithm: The algorithm, whose replies are differences of parameters.
        sites: The matrices.
    """

    sites: tuple[Site, ...] = static()

    moves = ("ab",)

    def start(self, ask, x):
        merged = {site.name: site.merged(x) for site in self.sites}
        return {**x, **merged, **{site.b: jnp.zeros_like(x[site.b]) for site in self.sites}}

    def round(self, ask, server):
        keys = jax.random.split(ask.key(), len(self.sites))
        begun = dict(server)
        for site, key in zip(self.sites, keys, strict=True):
            begun |= site.start(key, server[site.name].dtype)
        fixed = {site.name: begun.pop(site.name) for site in self.sites}
        inside = StackedAsk(ask, self, fixed, begun)
        new = self.algorithm.round(inside, begun)
        adapters = {name: begun[name] for site in self.sites for name in (site.a, site.b)}
        return {**new, **adapters, **{name: leaf + inside.change[name] for name, leaf in fixed.items()}}


class StackedAsk(HalfAsk):
    """The `ask` of a round from new adapters, which keeps the mean of the products that clients come back with.

    Args:
        ask: The server's access to its clients.
        stacked: The algorithm whose local methods clients run.
        fixed: The matrices.
        begun: The parameters that clients are sent.
    """

    def __init__(self, ask: Ask, stacked: Stacked, fixed: Leaves, begun: Leaves):
        super().__init__(ask, stacked, "ab", fixed)
        self._sites, self._begun = stacked.sites, begun
        self.change: Leaves = {name: jnp.zeros_like(leaf) for name, leaf in fixed.items()}

    def __call__(self, who: Any, method: Any, message: Any) -> Replies:
        replies = super().__call__(who, method, message)
        products = replies.map(lambda i, reply: {site.name: self._product(site, reply) for site in self._sites}).mean()
        self.change = if_any(replies, products, self.change)
        return replies

    def _product(self, site: Site, reply: Leaves) -> Any:
        """Return factor B_i A_i in the shape of the leaf W, given what a client's A and B moved by."""
        a, b = (self._begun[name] + reply[name] for name in (site.a, site.b))
        return site.leaf(site.factor * (b @ a))


def stacked(algorithm: Algorithm, sites: tuple[Site, ...], x: Leaves) -> Algorithm:
    """Return `algorithm` with rounds from new adapters of the matrices `sites`.

    Args:
        algorithm: The algorithm.
        sites: The matrices; where there are none, the algorithm stays as it is.
        x: The first parameters.

    Raises:
        UserError: The algorithm's replies are no differences of parameters, or a sampler learns from losses.
    """
    if not sites:
        return algorithm
    check_differences(algorithm, x, "stacked adapters make products")
    if any(sampler.feedback_kind == "loss" for sampler in samplers_in(algorithm)):
        raise UserError(
            "a sampler that learns from losses needs messages with all parameters in one: take another, or train both"
        )
    return Stacked(algorithm, sites)
