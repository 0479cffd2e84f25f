"""The `ask` on a mesh of devices: each device trains the drawn clients that it owns, and sums travel."""

from dataclasses import replace
from functools import reduce
from typing import cast

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, PyTree

from turnout.accounting.counters import limbs, whole
from turnout.core.replies import Replies
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.exchange.in_hubs import longest
from turnout.problems.storage.sharded import AXIS, Sharded

BLOCKS = 2
"""Into how many blocks an even part of a cohort is cut: a device that has more clients computes more of them."""


class MeshAsk(CompiledAsk):
    """Answers `ask` on one device of a mesh, inside `jax.shard_map`; the server's part is the same on all devices."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        # What each device has of the replies that were gathered, by the identity of the whole.
        self._parts: dict[int, tuple[PyTree, PyTree]] = {}

    _alone = False
    """Whether each device is at work with hubs of its own, and nothing travels."""

    @property
    def _storage(self) -> Sharded:
        return cast(Sharded, self.job.storage)

    def _mine(self, cohort):
        """Return the places of a cohort whose client this device owns [m]."""
        return cohort.active & self._storage.holds(cohort.ids)

    def _here(self, cohort):
        storage = self._storage
        return replace(cohort, ids=jnp.where(storage.holds(cohort.ids), cohort.ids - storage.first, storage.count))

    def _at_each_place(self, run_one, cohort, places):
        """Return `run_one` of each place, of which this device computes its own, some at a time."""
        if self._alone:
            return super()._at_each_place(run_one, cohort, places)
        mine, devices = self._mine(cohort), lax.axis_size(AXIS)
        size = min(-(-cohort.places // (BLOCKS * devices)), self.job.chunk)
        own_first, count = jnp.argsort(~mine, stable=True), jnp.sum(mine)
        shapes = jax.eval_shape(lambda: jax.vmap(run_one)(places))

        def step(k, done):
            numbers = k * size + jnp.arange(size)
            at = own_first[jnp.minimum(numbers, cohort.places - 1)]
            ids, active, *others = jax.tree.map(lambda leaf: leaf[at], places)
            new = jax.vmap(run_one)((ids, active & (numbers < count), *others))
            into = jnp.where(numbers < count, at, cohort.places)
            return jax.tree.map(lambda old, new: old.at[into].set(new, mode="drop"), done, new)

        nothing = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
        done = lax.fori_loop(0, (count + size - 1) // size, step, nothing)
        queries, missed = gathered((done.queries, done.missed))
        whole = jax.tree.map(self._whole, done.reply)
        return done._replace(reply=whole, queries=queries, missed=missed)

    def _whole(self, part):
        """Return the replies [m, ...] of all devices from those of this one, and remember the part."""
        whole = gathered(part)
        self._parts[id(whole)] = whole, part
        return whole

    def _each_hub(self, sizes, one, carry):
        """Have each device play its hubs where it has all their clients, so that nothing travels before the server needs it."""
        devices = lax.axis_size(AXIS)
        if not self._hubs_are_apart(sizes, devices):
            return super()._each_hub(sizes, one, carry)
        own, first, (_, most, *parts) = len(sizes) // devices, self.state.counts, carry
        mine = lax.axis_index(AXIS).astype("int32") * own
        self._alone = True
        _, most, replies, states, answered = self.loop(own, one, (mine, most, *parts))
        self._alone = False
        hubs = jnp.arange(len(sizes), dtype="int32")
        here = (hubs >= mine) & (hubs < mine + own)
        states = jax.tree.map(lambda leaf: jnp.where(here.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, 0), states)
        replies, states, answered = gathered((replies, states, answered))
        with jax.enable_x64(True):
            counts = whole(first) + lax.psum(whole(self.state.counts) - whole(first), AXIS)
            self.state = self.state._replace(counts=jnp.moveaxis(limbs(counts), 0, -1))
        return len(sizes), reduce(longest, lax.all_gather(most, AXIS)), replies, states, answered

    def _hubs_are_apart(self, sizes, devices: int) -> bool:
        """Whether each device holds all clients of as many hubs as any other."""
        if not self.job.hubs.consecutive or len(sizes) % devices or self.state.memories:
            return False
        own = len(sizes) // devices
        return all(sum(sizes[: own * k]) == self._storage.count * k for k in range(1, devices))

    def _launch(self, *arguments):
        # Whoever is asked in flight may have a new state, which waits in a place for all.
        done, *others = super()._launch(*arguments)
        return done._replace(state=gathered(done.state)), *others

    def _collected(self, replies):
        leaves, structure = jax.tree.flatten(replies.held)
        parts = [self._parts.get(id(leaf), (None, None))[1] for leaf in leaves]
        if any(part is None for part in parts):
            return replies
        return MeshReplies(replies, jax.tree.unflatten(structure, parts), self._mine(replies.cohort))


class MeshReplies(Replies):
    """Replies of which each device has its clients' own: sums of them travel, and all of them only where they are read.

    Args:
        whole: The replies of all devices, which no program computes unless they are read.
        part: Those of this device [m, ...], zero at the places of others.
        mine: The places of this device's clients [m].
    """

    whole: Replies
    part: PyTree
    mine: Bool[Array, " m"]

    def __init__(self, whole: Replies, part: PyTree, mine: Bool[Array, " m"]):
        own = {"whole": whole, "part": part, "mine": mine}
        shared = {name: getattr(whole, name) for name in ("held", "cohort", "answered", "everyone", "losses", "sent")}
        for name, value in {**own, **shared}.items():
            object.__setattr__(self, name, value)

    def each(self, of):
        results = jax.vmap(of)(self.part)

        def own(leaf):
            return jnp.where(self.mine.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, 0)

        return gathered(jax.tree.map(own, results))

    def map(self, change):
        return self.whole.map(change)

    def scaled(self, factors):
        return self.whole.scaled(factors)

    def _weighted_sum(self, weight):
        own = Replies(self.part, self.cohort, self.answered & self.mine)
        return lax.psum(own._weighted_sum(weight), AXIS)


def gathered(parts: PyTree) -> PyTree:
    """Return arrays of all devices from their parts, each of which is zero where another device has something."""

    def one(part):
        # Sums of truth values are whole numbers.
        return lax.psum(part.astype("int32"), AXIS).astype(bool) if part.dtype == bool else lax.psum(part, AXIS)

    return jax.tree.map(one, parts)
