"""The server's `ask`, up to how an engine runs clients and loops.

`EngineAsk` puts together the steps in `engines.exchange`; an engine adds `_run_clients`, `_commit`, `loop` and `cond`.
"""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from turnout.accounting.counters import add_events, elapsed, in_limbs
from turnout.accounting.ledger import Site
from turnout.codecs.coded import Coded
from turnout.core.algorithm import Ask
from turnout.core.client import Done
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.local_methods import BOTH, address, local_method
from turnout.core.messages import payload, split_each
from turnout.core.replies import Replies, Weight
from turnout.core.tree import where
from turnout.engines.exchange.coding import Coder
from turnout.engines.exchange.consulting import by_client, consultation, consultation_events, refuse_individual
from turnout.engines.exchange.counting import (
    CallSites,
    decryption_events,
    draw_events,
    encrypted_sites,
    exchange_events,
    exchange_site,
    part_events,
)
from turnout.engines.exchange.drawing import Draw, Draws, first_time
from turnout.engines.exchange.flight import Flight, without
from turnout.engines.exchange.judging import feedback_of, judged
from turnout.engines.exchange.linking import links
from turnout.engines.exchange.protecting import protected
from turnout.engines.exchange.robust import robust
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.exchange.timing import decryption_time, microseconds, timed
from turnout.engines.groups.ranks import Parts, by_rank, cut_sites
from turnout.engines.groups.statistics import attached, averaged, without_statistics
from turnout.engines.inputs import Job
from turnout.problems.base import Population
from turnout.samplers.base import Sampler, everyone_available, samplers_in
from turnout.samplers.diagnostics import Quality


class State(NamedTuple):
    """What an `ask` carries through loops and rounds.

    Args:
        samplers: State of each sampler.
        clients: Private states of the clients.
        counts: Counters of each call site.
        quality: How good the draws were, if metrics ask for it.
        draws: Number of draws in this round.
        exchanges: Number of exchanges in this round.
        asked: For each cohort drawn, 1 if it was asked already, else 0.
        observed: For each cohort drawn, 1 if its sampler has had feedback about it, else 0.
        memories: The server's memory of compressed messages and replies, for each local method.
        flight: The requests in flight; None before the first one.
        statistics: The statistics that the server averages, by name.
        came: Whether a client of the hub at work has answered; None while none is at work.
    """

    samplers: PyTree
    clients: PyTree
    counts: Any
    quality: Quality | None
    draws: Any
    exchanges: Any
    asked: tuple = ()
    observed: tuple = ()
    memories: dict = {}
    flight: Flight | None = None
    statistics: dict = {}
    came: Any = None


class Delivery(NamedTuple):
    """Places of a cohort [m] whose reply arrived, and how often each was asked again.

    Args:
        arrived: Whether the reply of each place arrived [m].
        repeats: How often each place was asked again [m].
        undecrypted: Requests to decrypt the sum of the replies that got no reply.
        microseconds: How long the exchange took, and the decryption of its sum, where that is measured.
    """

    arrived: Bool[Array, " m"]
    repeats: Int[Array, " m"]
    undecrypted: int = 0
    microseconds: tuple[int, int] | None = None


class EngineAsk(Ask):
    """Answers `ask` within one round.

    Args:
        job: Inputs of the engine.
        algorithm: The algorithm, bound to the problem.
        round: Number of the round; 0 at the start.
        state: State before the round.
        sites: All call sites of the algorithm, in the order of `state.counts`; None while they are being discovered.
    """

    def __init__(self, job: Job, algorithm, round, state: State, sites: tuple[Site, ...] | None):
        self.job, self.algorithm, self.round, self.state, self.sites = job, algorithm, round, state, sites
        self.calls, self.draws = CallSites(), Draws(algorithm)
        self.delivery: Delivery | None = None
        self._exchanged: Site | None = None
        self._weight: Weight | None = None

    @property
    def cut(self) -> tuple:
        """The matrices of whose adapters messages and replies have only what the client has."""
        return cut_sites(self.algorithm, self.job.protection)

    @abstractmethod
    def _run_clients(self, cohort: Cohort, method: str, message: PyTree, losses: Int[Array, " m"]) -> Done:
        """Run the local method at every place of the cohort, and stack what it returns, [m, ...].

        The first `losses` replies of each place are lost.
        """

    @abstractmethod
    def _commit(self, cohort: Cohort, answered, states: PyTree, turn: tuple | None = None) -> None:
        """Store the new private states of the clients whose replies are used.

        Args:
            cohort: The clients.
            answered: Places whose reply is used [m].
            states: New state of each place [m, ...].
            turn: Round and exchange in which each was asked; None for the exchange at hand.
        """

    def draw(self, sampler: Sampler, method=None, message=None) -> Cohort:
        number, path = self.draws.number(sampler), self.calls.next_path()
        if sampler.consults_before_draw:
            self._consult(number, path, method, message)
        key = self.job.draw_key(self.round, self.state.draws)
        state = self.state.samplers[number]
        cohort = self._draw(sampler, state, key, self._drawable(sampler))
        self.draws.add(Draw(cohort, number, state))
        self._learn(number, lambda state: sampler.advance(state, key))
        zero = jnp.zeros((), "int32")
        asked, observed = (*self.state.asked, zero), (*self.state.observed, zero)
        self.state = self.state._replace(draws=self.state.draws + 1, asked=asked, observed=observed)
        self._count(Site(path, "draw", cohort.selection), draw_events(cohort, self.job.population.count))
        return cohort

    def _draw(self, sampler: Sampler, state: PyTree, key, population: Population) -> Cohort:
        return sampler.draw(state, key, population)

    def _drawable(self, sampler: Sampler) -> Population:
        """Return the clients that `sampler` may draw: those without a request in flight."""
        flight = self.state.flight
        return self.job.population if flight is None else without(self.job.population, flight, sampler)

    def _consult(self, number: int, path: str, method, message: PyTree) -> None:
        """Ask the clients that a sampler consults before it draws, and give it their answers."""
        sampler, population = self.draws.samplers[number], self.job.population
        key = self.job.draw_key(self.round, self.state.draws)
        cohort, name, message = consultation(
            self.algorithm, sampler, self.state.samplers[number], key, population, method, message
        )
        message = attached(message, self.state.statistics)
        if sampler.is_charged:
            key = jax.random.fold_in(self.job.seeds.fault(self.round, self.state.exchanges), population.count)
            self._count(Site(f"{path}.consulted", "draw", cohort.selection), consultation_events(cohort))
            done, answered = self._send(f"{path}.preview", cohort, name, message, key, jnp.ones((), "int32"))
        else:
            done = self._run_clients(cohort, name, message, jnp.zeros(cohort.places, "int32"))
            answered = cohort.active
        values, answered = by_client(done.reply, answered, cohort, population.count)
        self._learn(number, lambda state: sampler.observe_consulted(state, values, answered, population))
        if sampler.is_charged:
            with self.calls.inside(f"{path}.calibrated"):
                self._learn(number, lambda state: sampler.calibrated(state, self, population))

    def __call__(self, who, method, message) -> Replies:
        cohort = self.draw(who, method, message) if isinstance(who, Sampler) else who
        name, path, message = address(self.algorithm, method), self.calls.next_path(), strongly_typed(message)
        message = attached(message, self.state.statistics)
        coder = self._coder(name, cohort)
        if coder is not None:
            message = coder.encoded(message)
        with_losses = self.draws.learns_losses(cohort)
        if with_losses:
            name = f"{name}.{BOTH}"
        exchange = self.state.exchanges
        key = self.job.seeds.fault(self.round, exchange)
        everyone = None if self.state.quality is None else self._ask_everyone(name, message)
        done, answered = self._send(path, cohort, name, message, key, self._fresh(cohort), everyone)
        self._commit(cohort, answered, done.state)
        self.state = self.state._replace(exchanges=exchange + 1)
        self._count(self._exchanged, {"aggregated": jnp.sum(answered, dtype="int32")})
        values, losses = (done.reply[0], jnp.asarray(done.reply[1])) if with_losses else (done.reply, None)
        if everyone is not None:
            everyone = everyone.reply[0] if with_losses else everyone.reply
        replies = self._collected(Replies(values, cohort, answered, everyone, losses))
        central = self.job.protection is not None and self.job.protection.model == "central"
        if coder is not None and not central:
            replies = coder.decoded(replies)
        replies = protected(robust(replies, self.job.robust), self.job, self.draws, name, self.round, exchange)
        if coder is not None:
            # Noise belongs to the sum that clients' clipped payloads make.
            replies = coder.decoded(replies) if central else replies
            self.state = self.state._replace(memories=coder.remembered(answered))
        return self._with_statistics(replies)

    def _with_statistics(self, replies: Replies) -> Replies:
        """Average the statistics that came with replies, and return the replies without them."""
        if not self.state.statistics:
            return replies
        self.state = self.state._replace(statistics=averaged(replies, self.state.statistics, self._weight))
        return without_statistics(replies)

    def _coder(self, name: str, cohort: Cohort) -> Coder | None:
        """Return what compresses an exchange; None where nothing does."""
        if not isinstance(self.algorithm, Coded) or self.algorithm.coding(name) is None:
            return None
        return Coder(self.job, self.algorithm, name, cohort, self.state.memories, self.round, self.state.exchanges)

    def _ask_everyone(self, name: str, message: PyTree) -> Done:
        """Run a local method on all clients, which is counted nowhere."""
        refuse_individual(message, self.algorithm, "metrics judge the draws by the replies of all clients")
        no_losses = jnp.zeros(self.job.population.count, "int32")
        return jax.tree.map(jnp.asarray, self._run_clients(everyone_available(self.job.population), name, message, no_losses))

    def _collected(self, replies: Replies) -> Replies:
        """Return the replies as the server receives them."""
        return replies

    def _send(
        self, path: str, cohort: Cohort, name: str, message: PyTree, key, fresh, everyone: Done | None = None
    ) -> tuple[Done, Bool[Array, " m"]]:
        """Run a local method on a cohort, lose some of the replies, and count the exchange.

        Args:
            path: Path of the call site.
            cohort: Clients to ask.
            name: Name of the local method.
            message: Message to the clients.
            key: Random key of the lost replies.
            fresh: 1 if the cohort is asked for the first time since it was drawn, else 0.
            everyone: What the method returned for all clients, if that is known.

        Returns:
            What the method returned at each place, and the places whose reply is used.
        """
        done, answered, repeats, self._exchanged = self._asked(path, cohort, name, message, key, everyone)
        decryption = None
        if self.job.aggregation == "encrypted":
            first = jax.tree.map(lambda stacked: stacked[0], done.reply)
            self._exchanged, decryption = encrypted_sites(self._exchanged, first)
        parts = self._by_size(self._exchanged, cohort, message, () if decryption else done.reply)
        self._exchanged = parts[0][0]
        measured = None if self.delivery is None else self.delivery.microseconds
        duration = {} if measured is None else {"microseconds": in_limbs(measured[0])}
        if self.job.fleet is not None:
            answered, duration["microseconds"] = timed(self.job.fleet, cohort, answered, done.queries, repeats, parts)
        events = exchange_events(cohort, fresh, answered, done.queries, done.missed, repeats) | duration
        for number, (site, here) in enumerate(parts):
            moved = part_events(here, answered, repeats) if len(parts) > 1 else {}
            self._count(site, moved if number else events | moved)
        if self.job.hubs is not None:
            each, clock = payload(split_each(message)[0]) // cohort.places, self.job.fleet is not None
            whole = self._whole(cohort)
            for link in links(self.job.hubs, self._exchanged, each, cohort, whole, fresh, answered, decryption, clock):
                self._count(*link)
        if decryption is not None:
            if self.job.fleet is not None:
                turn = self.round + self.state.exchanges
                duration["microseconds"] = decryption_time(self.job.fleet, cohort, answered, turn, decryption)
            elif measured is not None:
                duration["microseconds"] = in_limbs(measured[1])
            undecrypted = 0 if self.delivery is None else self.delivery.undecrypted
            self._count(decryption, decryption_events(answered, undecrypted) | duration)
        return done, answered

    def _whole(self, cohort: Cohort) -> Cohort:
        """Return the cohort that was drawn, of which `cohort` may be a part."""
        place = self.draws.place(cohort)
        return cohort if place is None else self.draws[place].cohort

    def _by_size(self, site: Site, cohort: Cohort, message: PyTree, replies: PyTree) -> Parts:
        """Return the call sites of an exchange, one for each size that messages and replies have."""
        if not self.cut:
            return [(site, cohort.active)]
        individual, write = split_each(message)
        own, reply = jax.tree.map(lambda stacked: stacked[0], (individual, replies))
        return by_rank(site, self.cut, cohort, write(own), reply)

    def _asked(
        self, path: str, cohort: Cohort, name: str, message: PyTree, key, everyone: Done | None = None
    ) -> tuple[Done, Bool[Array, " m"], Int[Array, " m"], Site]:
        """Run a local method on a cohort, and lose some of the replies.

        Args:
            path: Path of the call site.
            cohort: Clients to ask.
            name: Name of the local method.
            message: Message to the clients.
            key: Random key of the lost replies.
            everyone: What the method returned for all clients, if that is known.

        Returns:
            What the method returned at each place, the places whose reply is not lost, how often each was asked again, and the
            call site.
        """
        local_method(self.algorithm, name, self.job.start)
        individual, write = split_each(message)
        if any(leaf.shape[:1] != (cohort.places,) for leaf in jax.tree.leaves(individual)):
            raise UserError(f"Each in a message to {name} needs arrays stacked over the cohort's {cohort.places} places")
        faults, losses, answered = self.job.faults, jnp.zeros(cohort.places, "int32"), cohort.active
        if faults is not None:
            losses = jnp.where(cohort.active, faults.losses(key, cohort.ids), 0)
            answered = cohort.active & (faults.repeats | (losses == 0))
        if everyone is None:
            done = self._run_clients(cohort, name, message, losses)
        else:
            done = jax.tree.map(lambda leaf: leaf[cohort.ids], everyone)
        repeats = losses if faults is not None and faults.repeats else jnp.zeros_like(losses)
        if self.delivery is not None:
            arrived, further = self.delivery[:2] if everyone is None else (part[cohort.ids] for part in self.delivery[:2])
            answered, repeats = answered & arrived, repeats + further
        elif faults is not None and faults.bounds:
            reply, accepted = jax.vmap(faults.bound)(done.reply)
            done, answered = done._replace(reply=reply), answered & accepted
        first, first_reply = jax.tree.map(lambda stacked: stacked[0], (individual, done.reply))
        return done, answered, repeats, exchange_site(path, name, cohort, write(first), first_reply, self.job.start)

    def observe(self, replies, feedback=None):
        place = self.draws.place(replies.cohort)
        if place is None:
            raise UserError("ask.observe wants replies of a cohort that this round's ask.draw returned")
        draw, observed = self.draws[place], list(self.state.observed)
        sampler = self.draws.samplers[draw.number]
        if not sampler.learns_from_feedback and self.state.quality is None:
            return
        first, observed[place] = observed[place] == 0, jnp.ones((), "int32")
        self.state = self.state._replace(observed=tuple(observed))
        feedback, usable = feedback_of(replies, feedback, self.job.start)
        self._count(self._exchanged, {"unusable": jnp.sum(first & replies.answered & ~usable, dtype="int32")})
        answered = replace(draw.cohort, active=replies.answered & usable & first)
        old = self.state.samplers[draw.number]
        new = sampler.observe(old, answered, jnp.where(answered.active, feedback, 0))
        self._learn(draw.number, lambda _: where(first, new, old))
        if self.state.quality is not None:
            quality = judged(self.state.quality, draw, sampler, self.job, replies, first)
            self.state = self.state._replace(quality=quality)

    def reject(self, rejected):
        if self._exchanged is None:
            raise UserError("ask.reject is about the exchange before it, but there was none")
        self._count(self._exchanged, {"rejected": jnp.asarray(rejected, "int32")})

    def seconds(self):
        return elapsed(self.state.counts)

    def wait(self, seconds):
        self._count(Site(self.calls.next_path(), "wait", "arbitrary"), {"microseconds": microseconds(seconds)})

    def key(self):
        # No client has the number n, so that this key is none of theirs.
        return jax.random.fold_in(self.job.seeds.exchange(self.round, self.state.exchanges), self.job.population.count)

    def start(self, x: PyTree) -> PyTree:
        """Return the server's first state; call sites on the way to it are named "start.0" and so on."""
        with self.calls.inside("start"):
            return strongly_typed(self.algorithm.start(self, strongly_typed(x)))

    def play(self, server: PyTree) -> PyTree:
        """Return the server's state after the round.

        Args:
            server: The state before it.
        """
        return self.algorithm.round(self, server)

    def refresh(self, x: PyTree) -> None:
        """Let every sampler ask what it needs to know at the parameters x, at call sites named "refresh.0.0" and so on."""
        samplers = self.draws.samplers
        inner = [part for sampler in samplers for part in samplers_in(sampler)[1:]]
        for number, sampler in enumerate(samplers):
            if any(sampler is part for part in inner):
                continue  # The sampler that holds it refreshes it.
            with self.calls.inside(f"refresh.{number}"):
                self._learn(number, lambda state, sampler=sampler: sampler.refresh(state, self, x))

    def _learn(self, number: int, learn) -> None:
        """Replace the state of a sampler by `learn(state)`."""
        new = learn(self.state.samplers[number])
        states = list(self.state.samplers)
        states[number] = new
        self.state = self.state._replace(samplers=states)

    def _count(self, site: Site, events: dict) -> None:
        """Add `events` to the counters of a call site."""
        self.calls.reached[site.path] = site
        if self.sites is not None:
            number = [listed.path for listed in self.sites].index(site.path)
            self.state = self.state._replace(counts=add_events(self.state.counts, number, events))

    def _fresh(self, cohort: Cohort):
        """Return 1 if `cohort` is asked for the first time since it was drawn, else 0, and remember that it is asked."""
        fresh, asked = first_time(self.state.asked, self.draws.place(cohort), cohort)
        self.state = self.state._replace(asked=asked)
        return fresh

    def _pause(self, outside: int) -> State:
        """Return the state at the end of a loop's body or a branch; of the cohorts, the first `outside` are left."""
        self.draws.cut(outside)
        return self.state._replace(asked=self.state.asked[:outside], observed=self.state.observed[:outside])

    def _resume(self, state: State, outside: int) -> None:
        """Continue from `state`, with the first `outside` cohorts."""
        self.draws.cut(outside)
        self.state = state
