"""What every engine's `ask` shares: it draws, keeps count and names call sites; an engine adds how clients are run."""

from abc import abstractmethod
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from turnout.accounting.counters import add_events
from turnout.accounting.ledger import Site
from turnout.core.algorithm import Ask
from turnout.core.client import Done
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.local_methods import BOTH, LOSS, NORM, address, local_method, norm
from turnout.core.messages import payload, split_each, vector, vectors
from turnout.core.replies import Replies, Weight
from turnout.engines.inputs import Job
from turnout.privacy.mechanism import NoisyReplies
from turnout.samplers import Independent, Nice
from turnout.samplers.base import Sampler, everyone_available, samplers_in
from turnout.samplers.diagnostics import Quality, judge


class State(NamedTuple):
    """What an `ask` carries through loops and rounds: sampler and client states, counters, numbers within the round.

    `asked` and `told` have a 1 for each cohort drawn that was asked already, and whose sampler was told of the replies.
    """

    samplers: PyTree
    clients: PyTree
    counts: Any
    quality: Quality | None
    draws: Any
    exchanges: Any
    asked: tuple
    told: tuple


class Delivery(NamedTuple):
    """Which places of a cohort [m] a reply arrived from, and how often each was asked again for it."""

    arrived: Bool[Array, " m"]
    again: Int[Array, " m"]


class EngineAsk(Ask):
    """Answers `ask` within one round; `sites` None means that call sites are still being discovered.

    A call site is named by its place in the text: "0", then "1.loop.0" for the first one inside the loop at place 1.
    """

    def __init__(self, job: Job, algorithm, round, state: State, sites: tuple[Site, ...] | None):
        self.job, self.algorithm, self.round, self.state = job, algorithm, round, state
        self.sites, self.found = sites, {}
        self.samplers = samplers_in(algorithm)
        self._drawn: list[tuple[Cohort, int, PyTree]] = []
        self._prefix, self._next = "", 0
        self._asked: Site | None = None
        self.delivery: Delivery | None = None

    @abstractmethod
    def _run_clients(self, cohort: Cohort, method: str, message: PyTree, losses: Int[Array, " m"]) -> Done:
        """Run the local method at every place of the cohort and stack what it returns, [m, ...]."""

    @abstractmethod
    def _commit(self, cohort: Cohort, answered, states: PyTree) -> None:
        """Keep the new private states of the clients whose replies are used."""

    def draw(self, sampler: Sampler, method=None, message=None) -> Cohort:
        number, path = self._sampler_number(sampler), self._path()
        if sampler.consults_before_draw:
            self._preview(number, path, method, message)
        key = self.job.seeds.draw(self.round, self.state.draws)
        known = self.state.samplers[number]
        cohort = self._cohort(sampler, known, key)
        self._drawn.append((cohort, number, known))
        self._learn(number, lambda state: sampler.advance(state, key))
        zero = jnp.zeros((), "int32")
        asked, told = (*self.state.asked, zero), (*self.state.told, zero)
        self.state = self.state._replace(draws=self.state.draws + 1, asked=asked, told=told)
        drawn = cohort.size + cohort.lost
        events = {
            f"draws_{cohort.selection}": cohort.selections,
            "available": cohort.available,
            "drawn": drawn,
            "lost": cohort.lost,
            "unusable": cohort.invalid_places(self.job.population.count),
        }
        self._count(Site(path, "draw", cohort.selection), events)
        return cohort

    def _cohort(self, sampler: Sampler, state: PyTree, key) -> Cohort:
        """Draw a cohort."""
        return sampler.draw(state, key, self.job.population)

    def __call__(self, who, method, message) -> Replies:
        cohort = self.draw(who, method, message) if isinstance(who, Sampler) else who
        name, path, message = address(self.algorithm, method), self._path(), strongly_typed(message)
        hears = self._hears_losses(cohort)
        if hears:
            name = f"{name}.{BOTH}"
        key = self.job.seeds.fault(self.round, self.state.exchanges)
        everyone = None
        if self.state.quality is not None:
            self._same_for_all(message, "metrics judge the draws by the replies of all clients")
            nobody_lost = jnp.zeros(self.job.population.count, "int32")
            everyone = jax.tree.map(
                jnp.asarray, self._run_clients(everyone_available(self.job.population), name, message, nobody_lost)
            )
        done, answered = self._send(path, cohort, name, message, key, self._fresh(cohort), everyone)
        self._commit(cohort, answered, done.state)
        self.state = self.state._replace(exchanges=self.state.exchanges + 1)
        self._count(self._asked, {"aggregated": jnp.sum(answered, dtype="int32")})
        values, losses = (done.reply[0], jnp.asarray(done.reply[1])) if hears else (done.reply, None)
        if everyone is not None:
            everyone = everyone.reply[0] if hears else everyone.reply
        return self._protected(self._collected(Replies(values, cohort, answered, everyone, losses)))

    def _collected(self, replies: Replies) -> Replies:
        """Return the replies to an exchange as they are held."""
        return replies

    def _protected(self, replies: Replies) -> Replies:
        """Return replies whose sums have noise where the server has to add it; it is the same however often they are taken."""
        protection = self.job.protection
        if protection is None or protection.model != "central":
            return replies
        n = self.job.population.count
        key = protection.key(self._asked.method, self.round, self.state.exchanges - 1, n)
        return NoisyReplies(replies, lambda total, by: protection.add_noise(total, self._largest(replies.cohort, by), key))

    def _largest(self, cohort: Cohort, by: Weight):
        """The largest weight that a sum may give a client: of all clients where it is known, else of the cohort's."""
        population, place = self.job.population, self._place(cohort)
        if by == "share":
            return jnp.max(population.shares)
        if place is not None and population.available is None:
            _, number, known = self._drawn[place]
            if isinstance(self.samplers[number], (Independent, Nice)):
                return jnp.max(population.shares / self.samplers[number].expected_draws(known, population))
        return jnp.max(jnp.where(cohort.active, cohort.weight, 0))

    def _send(
        self, path: str, cohort: Cohort, name: str, message: PyTree, key, fresh, everyone: Done | None = None
    ) -> tuple[Done, Bool[Array, " m"]]:
        """Run a local method on a cohort, lose some of the replies with `key`, and count all that; return what it returned,
        and who answered. What `everyone` would return is not computed again.
        """
        local_method(self.algorithm, name, self.job.start)
        own, write = split_each(message)
        if any(leaf.shape[:1] != (cohort.places,) for leaf in jax.tree.leaves(own)):
            raise UserError(f"Each in a message to {name} needs arrays stacked over the cohort's {cohort.places} places")
        faults, losses, answered = self.job.faults, jnp.zeros(cohort.places, "int32"), cohort.active
        if faults is not None:
            losses = jnp.where(cohort.active, faults.losses(key, cohort.ids), 0)
            answered = cohort.active & (faults.repeats | (losses == 0))
        if everyone is None:
            done = self._run_clients(cohort, name, message, losses)
        else:
            done = jax.tree.map(lambda leaf: leaf[cohort.ids], everyone)
        again = losses if faults is not None and faults.repeats else jnp.zeros_like(losses)
        if self.delivery is not None:
            arrived, more = self.delivery if everyone is None else (part[cohort.ids] for part in self.delivery)
            answered, again = answered & arrived, again + more
        first_own, first_reply = jax.tree.map(lambda stacked: stacked[0], (own, done.reply))
        self._asked = self._site(path, name, cohort, write(first_own), first_reply)
        self._count(self._asked, exchange_events(cohort, fresh, answered, done, again))
        return done, answered

    def _preview(self, number: int, path: str, method, message: PyTree) -> None:
        """Ask whom the sampler wants to consult about the coming exchange, and hand it the answers."""
        sampler = self.samplers[number]
        if method is None:
            name = type(self.algorithm).__name__
            raise UserError(
                f"the sampler asks before it draws, and {name} does not say what: write ask.draw(sampler, method, message)"
            )
        n, draw = self.job.population.count, self.job.seeds.draw(self.round, self.state.draws)
        # No client has the number n, and no draw splits off as many keys.
        asked = sampler.consulted_cohort(self.state.samplers[number], jax.random.fold_in(draw, n), self.job.population)
        what = LOSS if sampler.feedback_kind == "loss" else NORM
        name, message = f"{address(self.algorithm, method)}.{what}", strongly_typed(message)
        self._same_for_all(message, "the sampler asks clients before it draws")
        if sampler.is_charged:
            key = jax.random.fold_in(self.job.seeds.fault(self.round, self.state.exchanges), n)
            events = {"draws_arbitrary": asked.selections, "available": asked.available, "drawn": asked.size}
            self._count(Site(f"{path}.consulted", "draw", asked.selection), events)
            done, answered = self._send(f"{path}.preview", asked, name, message, key, jnp.ones((), "int32"))
        else:
            done = self._run_clients(asked, name, message, jnp.zeros(asked.places, "int32"))
            answered = asked.active
        places = jnp.where(answered, asked.ids, n)
        replies = jnp.asarray(done.reply)
        values = jnp.zeros(n, replies.dtype).at[places].set(replies, mode="drop")
        answered = jnp.zeros(n, bool).at[places].set(True, mode="drop")
        self._learn(number, lambda state: sampler.observe_consulted(state, values, answered, self.job.population))

    def _same_for_all(self, message: PyTree, why: str) -> None:
        """Raise `UserError` where `message` differs from client to client, since only a cohort's places have a message then."""
        if split_each(message)[0]:
            raise UserError(f"{why}, but {type(self.algorithm).__name__} has a message of its own for each: do without these")

    def observe(self, replies, feedback=None):
        place = self._place(replies.cohort)
        if place is None:
            raise UserError("ask.observe wants replies of a cohort that this round's ask.draw returned")
        cohort, number, known = self._drawn[place]
        sampler, told = self.samplers[number], list(self.state.told)
        if not sampler.learns_from_feedback and self.state.quality is None:
            return
        first, told[place] = told[place] == 0, jnp.ones((), "int32")
        self.state = self.state._replace(told=tuple(told))
        # A norm cannot be negative, a loss may be.
        least = -jnp.inf if feedback is None and replies.losses is not None else 0
        if feedback is None:
            length = partial(length_of, like=self.job.start)
            feedback = replies.each(length) if replies.losses is None else replies.losses
        usable = jnp.isfinite(feedback) & (feedback >= least)
        self._count(self._asked, {"unusable": jnp.sum(first & replies.answered & ~usable, dtype="int32")})
        heard = replace(cohort, active=replies.answered & usable)
        old = self.state.samplers[number]
        new = sampler.observe(old, heard, jnp.where(heard.active, feedback, 0))
        self._learn(number, lambda _: jax.tree.map(lambda new, old: jnp.where(first, new, old), new, old))
        if self.state.quality is not None:
            everyone = jax.vmap(lambda reply: ravel_pytree(vector(reply, self.job.start))[0])(replies.everyone)
            judged = judge(self.state.quality, sampler, known, self.job.population, everyone)
            quality = jax.tree.map(lambda new, old: jnp.where(first, new, old), judged, self.state.quality)
            self.state = self.state._replace(quality=quality)

    def reject(self, rejected):
        if self._asked is None:
            raise UserError("ask.reject is about the exchange before it, but there was none")
        self._count(self._asked, {"rejected": jnp.asarray(rejected, "int32")})

    def key(self):
        # No client has the number n, so that this key is none of theirs.
        return jax.random.fold_in(self.job.seeds.exchange(self.round, self.state.exchanges), self.job.population.count)

    def refresh(self, x: PyTree) -> None:
        """Let every sampler ask what it wants to know at the parameters x, at call sites named "refresh.0.0" and so on."""
        held = [inner for sampler in self.samplers for inner in samplers_in(sampler)[1:]]
        for number, sampler in enumerate(self.samplers):
            if any(sampler is inner for inner in held):
                continue  # It is refreshed by the one that holds it.
            with self._inside(f"refresh.{number}"):
                self._learn(number, lambda state, sampler=sampler: sampler.refresh(state, self, x))

    def start(self, x: PyTree) -> PyTree:
        """Return the server's first state, the call sites on the way to it being named "start.0" and so on."""
        with self._inside("start"):
            return strongly_typed(self.algorithm.start(self, strongly_typed(x)))

    def _learn(self, number: int, learn) -> None:
        """Replace the state of a sampler by `learn(state)`."""
        new = learn(self.state.samplers[number])
        states = list(self.state.samplers)
        states[number] = new
        self.state = self.state._replace(samplers=states)

    @contextmanager
    def _inside(self, path: str):
        """Number the call sites of a loop's body or a branch from zero, however often it is run or traced."""
        outer = self._prefix, self._next
        self._prefix, self._next = path + ".", 0
        try:
            yield
        finally:
            self._prefix, self._next = outer

    def _path(self) -> str:
        self._next += 1
        return f"{self._prefix}{self._next - 1}"

    def _sampler_number(self, sampler: Sampler) -> int:
        for number, known in enumerate(self.samplers):
            if known is sampler:
                return number
        raise UserError(f"sampler {type(sampler).__name__} is not a field of {type(self.algorithm).__name__}: make it one")

    def _site(self, path: str, method: str, cohort: Cohort, message, reply) -> Site:
        params = self.job.start
        return Site(
            path,
            method,
            cohort.selection,
            vectors_down=len(vectors(message, params)),
            vectors_up=len(vectors(reply, params)),
            bytes_down=payload(message),
            bytes_up=payload(reply),
        )

    def _count(self, site: Site, events: dict):
        self.found[site.path] = site
        if self.sites is not None:
            number = [known.path for known in self.sites].index(site.path)
            self.state = self.state._replace(counts=add_events(self.state.counts, number, events))

    def _place(self, cohort: Cohort) -> int | None:
        """Return the number of the draw that `cohort`, or the one that it is a part of, came from; None if from elsewhere."""
        return next((k for k, (known, *_) in enumerate(self._drawn) if known.ids is cohort.ids), None)

    def _hears_losses(self, cohort: Cohort) -> bool:
        """Whether the sampler that drew the cohort learns from losses."""
        place = self._place(cohort)
        sampler = None if place is None else self.samplers[self._drawn[place][1]]
        return sampler is not None and sampler.learns_from_feedback and sampler.feedback_kind == "loss"

    def _fresh(self, cohort: Cohort):
        """1 if this cohort is asked for the first time since it was drawn; one from elsewhere counts as asked again.

        A part of a cohort with nobody in it is not asked, so that the cohort stays fresh.
        """
        place = self._place(cohort)
        if place is None:
            return jnp.zeros((), "int32")
        asked = list(self.state.asked)
        fresh, asked[place] = 1 - asked[place], jnp.where(cohort.size > 0, 1, asked[place]).astype("int32")
        self.state = self.state._replace(asked=tuple(asked))
        return fresh

    def _pause(self, outside: int) -> State:
        """Hand the state out of a body; the cohorts drawn inside it stay inside."""
        del self._drawn[outside:]
        return self.state._replace(asked=self.state.asked[:outside], told=self.state.told[:outside])

    def _resume(self, state: State, outside: int):
        del self._drawn[outside:]
        self.state = state


def exchange_events(cohort: Cohort, fresh, answered, done: Done, again) -> dict:
    """What one exchange is charged, given what each place returned and how often it was asked `again` [m]."""
    met = (cohort.size > 0).astype("int32")
    asked = jnp.where(cohort.active, done.queries, 0)
    return {
        "exchanges": met + jnp.max(again),
        "cohorts": met * fresh,
        "reasks": met * (1 - fresh) * cohort.selections + jnp.max(again),
        "contacts": cohort.size + jnp.sum(again, dtype="int32"),
        "arrivals": jnp.sum(answered, dtype="int32"),
        "missed": jnp.sum(jnp.where(cohort.active, done.missed, 0), dtype="int32"),
        "queries_slowest": jnp.max(asked),
        "queries_total": jnp.sum(asked, dtype="int32"),
    }


@jax.jit
def length_of(reply: PyTree, like: PyTree) -> Float[Array, ""]:
    """Return the norm of a reply's first part that is shaped like the parameters `like`; compiled, it takes no memory."""
    return norm(vector(reply, like))


def strongly_typed(tree: PyTree) -> PyTree:
    """Return `tree` as arrays whose types do not yield to others, so that a loop over rounds keeps them."""
    return jax.tree.map(_strongly, tree)


def _strongly(leaf) -> jax.Array:
    leaf = jnp.asarray(leaf)
    return jax.lax.convert_element_type(leaf, leaf.dtype) if leaf.weak_type else leaf


def finished(done: Done, state: PyTree) -> Done:
    """Return what a local method returned with all parts filled in; a state not returned is the old `state`."""
    return Done(
        strongly_typed(done.reply),
        strongly_typed(state if done.state is None else done.state),
        jnp.asarray(done.queries, "int32"),
        jnp.asarray(done.missed, "int32"),
    )
