"""Requests to play that reach the lowest hubs through others, and what these found on its way back."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.engines.flower.hub_messages import HEADER_BYTES, decoded
from turnout.engines.flower.hub_play import (
    Order,
    Played,
    Terms,
    exchanges_of_busy,
    packed_order,
    packed_orders,
    refuse_unusable,
    shown,
    told_by,
)
from turnout.engines.flower.hubs_at_work import HubsAtWork, Reader, Results
from turnout.engines.hubs_ask import APART
from turnout.io.serialization import Buffer, encode


class Below(NamedTuple):
    """What came of the lowest hubs below a hub.

    Args:
        played: What came of each.
        why: Why each other one has not played.
    """

    played: dict[int, Played]
    why: dict[int, str]


def packed_below(below: Below, weights: Mapping[int, float] | None, start: PyTree) -> bytes:
    """Return the reply of a hub for the lowest hubs below it.

    Args:
        below: What came of these.
        weights: Lambda_h of each, with which the hub sends the mean of what they found; None sends each.
        start: Initial parameters.
    """
    found = {hub: played.reply for hub, played in below.played.items() if played.reply is not None}
    told = {hub: {**played._asdict(), "reply": hub in found} for hub, played in below.played.items()}
    arrays = [*found.values()] if weights is None else _mean(found, weights)
    return encode(arrays, start, {"played": told, "why": below.why})


def _mean(found: dict[int, PyTree], weights: Mapping[int, float]) -> PyTree:
    """Return sum_h Lambda_h y_h / sum_h Lambda_h; None where nothing was found."""
    if not found:
        return None
    total = sum(weights[hub] for hub in found)
    shares = [weights[hub] / total for hub in found]

    def mean(*leaves):
        return sum(np.multiply(*each, dtype=leaves[0].dtype) for each in zip(shares, leaves, strict=True))

    return jax.tree.map(mean, *found.values())


class TermsBelow(NamedTuple):
    """What the reply of a hub may say for the lowest hubs below it.

    Args:
        each: What the reply of each of these may say.
        summed: Whether the hub sends the mean of what they found, and not each.
    """

    each: dict[int, Terms]
    summed: bool

    @property
    def limit(self) -> int:
        """Most bytes of a reply."""
        limits = [terms.limit for terms in self.each.values()]
        return sum(limits) + HEADER_BYTES * len(limits)

    def read(self, body: Buffer) -> Below | int:
        """Return what came of the hubs, or how many exchanges they have made so far; `ValueError` where it is not valid."""
        first = next(iter(self.each.values()))
        arrays, told = decoded(body, first.start)
        if "busy" in told:
            return exchanges_of_busy(told, APART * len(self.each))
        said, why = self._said(told)
        found = [hub for hub, own in said.items() if own.get("reply") is True]
        if self.summed:
            if found:
                refuse_unusable(body, first.start, first.expected)
            replies = dict.fromkeys(found, arrays)
        else:
            refuse_unusable(body, first.start, [first.expected] * len(found))
            replies = dict(zip(found, arrays, strict=True))
        return Below({hub: self.each[hub].checked(replies.get(hub), own) for hub, own in said.items()}, why)

    def _said(self, told: dict) -> tuple[dict[int, dict], dict[int, str]]:
        said = told_by(lambda: {int(hub): dict(own) for hub, own in told["played"].items()}, "malformed")
        why = told_by(lambda: {int(hub): shown(reason) for hub, reason in told["why"].items()}, "malformed")
        if not said.keys() | why.keys() <= self.each.keys():
            raise ValueError("for hubs that are not below it")
        return said, why


class LowestHubs(NamedTuple):
    """Has the lowest hubs play, each of which is connected here, or below a hub that is.

    Args:
        at_work: Reaches the hubs that are connected.
        above: The connected hub of each of the lowest ones, which it may be itself.
        direct: Whether the connected hubs are the lowest ones.
        summed: Whether hubs between send the mean of what those below them found, and not each.
    """

    at_work: HubsAtWork
    above: Mapping[int, int]
    direct: bool
    summed: bool

    def play(self, orders: dict[int, Order], body: bytes, terms: dict[int, Terms], repeats: bool) -> Results:
        """Return what comes of the lowest hubs.

        Where hubs between send means, the reply of each of the lowest hubs is the mean over those that have played below the same
        one, so that sums with the weights Lambda_h are those of their own replies.

        Args:
            orders: What each is to play.
            body: The message to all of them.
            terms: What each may reply.
            repeats: Whether hubs whose reply is missing are asked again.
        """
        groups: dict[int, list[int]] = {}
        for hub in orders:
            groups.setdefault(self.above[hub], []).append(hub)
        if self.direct:
            headers = {above: packed_order(orders[hub]) for above, (hub,) in groups.items()}
            allowed: dict[int, Reader] = {above: terms[hub] for above, (hub,) in groups.items()}
        else:
            headers = {above: packed_orders({hub: orders[hub] for hub in own}) for above, own in groups.items()}
            allowed = {above: TermsBelow({hub: terms[hub] for hub in own}, self.summed) for above, own in groups.items()}
        results = self.at_work.play({above: (header, body) for above, header in headers.items()}, allowed, repeats)
        played: dict[int, Played] = {}
        why: dict[int, str] = {}
        for above, own in groups.items():
            came = results.played.get(above)
            if came is None:
                why |= dict.fromkeys(own, results.why[above])
            elif isinstance(came, Below):
                played |= came.played
                why |= {hub: came.why.get(hub, "its hub does not say") for hub in own if hub not in came.played}
            else:
                played[own[0]] = came
        return Results(played, why, results.seconds)
