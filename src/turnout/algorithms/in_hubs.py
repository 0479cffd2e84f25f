"""Algorithms of several levels: each hub runs an algorithm with its own clients, and the server averages what hubs find."""

from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.codecs.base import Codec
from turnout.codecs.exchange import AT_BOTH_ENDS, Feedback
from turnout.codecs.parts import Direction, Shape
from turnout.core.algorithm import Algorithm
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Count, record, static
from turnout.core.replies import Replies, if_any
from turnout.core.tree import add
from turnout.optimisers import Optimiser
from turnout.samplers import Sampler

OWN = 2**30
"""Sets the random key of what hubs send apart from those of their rounds."""


class InHubsState(NamedTuple):
    """State of the server.

    Args:
        x: The parameters.
        optimiser: State of the server's optimiser.
        memories: What each hub remembers of its compressed replies [hubs, ...].
        known: What the server remembers of them [hubs, ...], where both ends do.
    """

    x: PyTree
    optimiser: Any
    memories: list
    known: list


@record
class InHubs(Algorithm):
    """An algorithm in each hub, and the mean of the hubs' models at the server.

    x <- x + sum_h Lambda_h (y_h - x) / sum_h Lambda_h over the hubs h that answer, Lambda_h = sum_{i in h} lambda_i, where y_h is
    what `algorithm` finds from x in K = `rounds` rounds on f_h = sum_{i in h} (lambda_i / Lambda_h) f_i. With
    `server_optimiser`, x takes its step along the mean of x - y_h.

    Hubs work side by side, and all K rounds pass no link but those inside hubs. With `FedAvg` it is hierarchical federated
    averaging (Liu et al., 2020, HierFAVG, Algorithm 1; Castiglia et al., 2021), with codecs of `Exchange` inside hubs and `up`
    above them Hier-Local-QSGD (Liu et al., 2023, Algorithm 1); with `Sppm` hubs approximate prox_{gamma f_S} of their own
    cohorts (Cohort Squeeze, section 3.6, hubs in parallel); with Nesterov's momentum at the server each hub is an island of
    DiLoCo (Douillard et al., 2023, Algorithm 1). The algorithm's server state starts anew in each round, clients keep theirs, and
    a schedule counts the rounds of the server.

    Args:
        algorithm: What each hub runs; its sampler draws among the clients of one hub.
        rounds: K, the rounds in a hub between two exchanges with the server.
        server_optimiser: First-order optimiser of the server; None for the mean.
        up: Codec of what hubs send up, y_h - x; None for none.
        feedback: What a hub remembers of it: see `Exchange`.

    Raises:
        UserError: Without hubs, or where a sampler cannot draw among some of the clients.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=20, dimension=5, seed=0)
        >>> algorithm = t.InHubs(t.FedAvg(t.Nice(2), lr=0.05, steps=3), rounds=4)
        >>> totals = t.run(algorithm, problem, rounds=10, hubs=t.Hubs(5)).ledger.totals()
        >>> totals["exchanges"], totals["server_exchanges"]
        (40, 10)
        >>> totals["contacts"], totals["server_contacts"]
        (400, 50)
    """

    algorithm: Algorithm
    rounds: Count = 1
    _: KW_ONLY
    server_optimiser: Optimiser | None = None
    up: Codec | None = static(default=None)
    feedback: Feedback = static(default="none")
    sizes: tuple[int, ...] = static(default=(), repr=False)

    wraps: ClassVar[str] = "algorithm"
    """The field whose own fields sweeps name as if they were this record's."""

    cohorts_per_round = None
    works_in_hubs = True

    @property
    def sampler(self) -> Sampler:
        """Who takes part in each round of a hub."""
        inside: Any = self.algorithm
        return inside.sampler

    def bind(self, problem):
        if problem.population.strata is None:
            # A run is refused before, and theory needs no hubs.
            return self
        if self.algorithm.places or self.algorithm.personalises or self.algorithm.model_groups:
            name = type(self.algorithm).__name__
            raise UserError(f"{name} does not run inside hubs, since it finds more than one model or has requests in flight")
        if self.server_optimiser is not None:
            self.server_optimiser.check_at_server()
        return replace(self, sizes=tuple(np.bincount(np.asarray(problem.population.strata)).tolist()))

    def client_state(self, x):
        return self.algorithm.client_state(x)

    def hub_state(self, x):
        return self._upwards(x).memory()

    def start(self, ask, x):
        optimiser = None if self.server_optimiser is None else self.server_optimiser.start(x)
        memories = [jnp.zeros((len(self.sizes), *leaf.shape), leaf.dtype) for leaf in self.hub_state(x)]
        return InHubsState(x, optimiser, memories, memories if self.feedback in AT_BOTH_ENDS else [])

    def output(self, server):
        return server.x

    def round(self, ask, server):
        upwards, key, like = self._upwards(server.x), ask.key(), server.x
        if upwards.codes:
            payload, _ = jax.eval_shape(upwards.send, server.x, upwards.memory(), key)
            like = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), payload)
        replies, memories = ask.in_hubs(self.sizes, server.x, like, server.memories)
        new = server._replace(memories=memories)
        if upwards.codes:
            replies, known = self._received(upwards, key, server.known, replies)
            new = new._replace(known=known)
        change = replies.mean()
        if self.server_optimiser is None:
            return new._replace(x=add(server.x, change))
        gradient = jax.tree.map(lambda leaf: -leaf, change)
        x, optimiser = self.server_optimiser.step(server.x, gradient, server.optimiser)
        return if_any(replies, new._replace(x=x, optimiser=optimiser), server)

    def in_hub(self, ask, key, message, state):
        """Return what a hub sends up after K rounds with its clients, y_h - x, and its next memory."""
        upwards, x = self._upwards(message), message
        found = ask.loop(self.rounds, lambda state: self.algorithm.round(ask, state), self.algorithm.start(ask, x))
        change = add(self.algorithm.output(found), x, -1.0)
        return Done(*upwards.send(change, state, jax.random.fold_in(key, OWN))) if upwards.codes else Done(change, state)

    def _received(self, upwards: Direction, key: Any, known: list, replies: Replies) -> tuple[Replies, list]:
        """Return the y_h - x that payloads stand for, and what the server remembers of the hubs that answered."""

        def received(hub, payload):
            own = jax.random.fold_in(jax.random.fold_in(key, hub), OWN)
            return upwards.receive(payload, [leaf[hub] for leaf in known], own)

        both = replies.map(received)
        memories = both.values[1] if known else []

        def kept(new, old):
            return jnp.where(both.answered.reshape(-1, *(1,) * (old.ndim - 1)), new, old)

        return both.map(lambda hub, pair: pair[0]), [kept(*pair) for pair in zip(memories, known, strict=True)]

    def _upwards(self, x: PyTree) -> Direction:
        """Return how changes of parameters shaped like x are compressed on their way up."""
        return Direction(self.up, self.feedback, False, Shape.of(x))
