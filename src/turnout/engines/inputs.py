"""Inputs of an engine."""

from dataclasses import field
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.accounting.target import Target
from turnout.core.records import record, static
from turnout.core.seeds import Seeds
from turnout.devices import Fleet
from turnout.engines.faults import Faults
from turnout.hubs import Layout
from turnout.privacy.mechanism import Protection
from turnout.problems.optimum import Optimum
from turnout.problems.storage.layout import Storage

Aggregation = Literal["plain", "sum", "encrypted"]
"""What the server receives of the replies to an exchange: each, their weighted sum only, or each encrypted and their sum."""

SUMS = ("sum", "encrypted")
"""Those of which an algorithm gets sums only."""


@record
class Job:
    """Inputs of one run, placed where the engine computes.

    Args:
        storage: The problem and its rows.
        start: Initial parameters.
        seeds: Seed of each purpose.
        faults: Simulated losses of replies.
        optimum: Minimiser and minimum of f, for the metrics that need them.
        test: Rows of the test set.
        held_out: Clients that are only evaluated.
        chunk: Number of clients that are computed at a time.
        judged: Whether every exchange also computes all clients' replies, for the metrics of the sampler.
        stop: Target at which the run ends.
        aggregation: What the server receives of the replies.
        robust: Robust mean that replaces sums of replies.
        protection: Noise for differential privacy.
        secret: Two 32-bit words [2] that the draws of cohorts depend on too, if these are to be secret.
        fleet: Devices of the clients; None: there is no clock.
        hubs: Hubs between the server and the clients; None: there are none.
        keeps_messages: Whether messages in flight are kept, to be sent again after a restart.
        others: The first leaves of the model that the algorithm does not see, by name; empty without groups.
    """

    storage: Storage
    start: PyTree
    seeds: Seeds
    faults: Faults | None
    optimum: Optimum | None
    test: Storage | None
    held_out: Storage | None
    chunk: int = static()
    judged: bool = static(default=False)
    stop: Target | None = None
    aggregation: Aggregation = static(default="plain")
    robust: Any = None
    protection: Protection | None = None
    secret: Any = None
    fleet: Fleet | None = None
    hubs: Layout | None = None
    keeps_messages: bool = static(default=False)
    others: dict[str, Any] = field(default_factory=dict)

    def draw_key(self, round, count):
        """Return the key of draw number `count` of a round.

        Args:
            round: Number of the round, from 1; 0 for the start.
            count: Number within the round, from 0.
        """
        key = self.seeds.draw(round, count)
        for word in () if self.secret is None else jnp.asarray(self.secret):
            key = jax.random.fold_in(key, word)
        return key

    @property
    def population(self):
        return self.storage.problem.population
