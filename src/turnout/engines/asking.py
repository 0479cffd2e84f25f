"""What every engine's `ask` shares: it draws, keeps count and names call sites; an engine adds how clients are run."""

from abc import abstractmethod
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from turnout.cohort import Cohort
from turnout.engines.job import Job
from turnout.engines.tally import add_events
from turnout.errors import UserError
from turnout.exchange import Ask, Done, Replies, address, local_method
from turnout.ledger import Site, payload, vectors
from turnout.samplers.base import Sampler, samplers_in


class State(NamedTuple):
    """What an `ask` carries through loops and rounds: sampler and client states, counters, numbers within the round."""

    samplers: PyTree
    clients: PyTree
    counts: Any
    draws: Any
    exchanges: Any
    asked: tuple


class EngineAsk(Ask):
    """Answers `ask` within one round; `sites` None means that call sites are still being discovered.

    A call site is named by its place in the text: "0", then "1.loop.0" for the first one inside the loop at place 1.
    """

    def __init__(self, job: Job, algorithm, round, state: State, sites: tuple[Site, ...] | None):
        self.job, self.algorithm, self.round, self.state = job, algorithm, round, state
        self.sites, self.found = sites, {}
        self.samplers = samplers_in(algorithm)
        self._drawn: list[tuple[Cohort, int]] = []
        self._prefix, self._next = "", 0
        self._asked: Site | None = None

    @abstractmethod
    def _run_clients(self, cohort: Cohort, method: str, message: PyTree, losses: Int[Array, " m"]) -> Done:
        """Run the local method at every place of the cohort and stack what it returns, [m, ...]."""

    @abstractmethod
    def _commit(self, cohort: Cohort, answered, states: PyTree) -> None:
        """Keep the new private states of the clients whose replies are used."""

    def draw(self, sampler: Sampler) -> Cohort:
        number, path = self._sampler_number(sampler), self._path()
        key = self.job.seeds.draw(self.round, self.state.draws)
        cohort = sampler.draw(self.state.samplers[number], key, self.job.population)
        self._drawn.append((cohort, number))
        self._learn(number, lambda state: sampler.drawn(state, key))
        self.state = self.state._replace(draws=self.state.draws + 1, asked=(*self.state.asked, jnp.zeros((), "int32")))
        events = {f"draws_{cohort.selection}": cohort.selections, "lost": cohort.lost}
        self._count(Site(path, "draw", cohort.selection), events)
        return cohort

    def observe(self, cohort, feedback):
        place = self._place(cohort)
        if place is None:
            raise UserError("ask.observe wants the cohort that this round's ask.draw returned")
        number = self._drawn[place][1]
        self._learn(number, lambda state: self.samplers[number].observe(state, cohort, feedback))

    def __call__(self, who, method, message) -> Replies:
        cohort = self.draw(who) if isinstance(who, Sampler) else who
        name = address(self.algorithm, method)
        local_method(self.algorithm, name)
        path, message = self._path(), strongly_typed(message)
        faults, number = self.job.faults, self.state.exchanges
        losses, answered = jnp.zeros(cohort.places, "int32"), cohort.active
        if faults is not None:
            losses = jnp.where(cohort.active, faults.losses(self.job.seeds.fault(self.round, number), cohort.ids), 0)
            answered = cohort.active & (faults.repeats | (losses == 0))
        done = self._run_clients(cohort, name, message, losses)
        self._commit(cohort, answered, done.state)
        again = losses if faults is not None and faults.repeats else jnp.zeros_like(losses)
        one = jax.tree.map(lambda reply: reply[0], done.reply)
        self._asked = self._site(path, name, cohort, message, one)
        self._count(self._asked, exchange_events(cohort, self._fresh(cohort), answered, done.queries, again))
        self.state = self.state._replace(exchanges=number + 1)
        return Replies(done.reply, cohort, answered)

    def reject(self, rejected):
        if self._asked is None:
            raise UserError("ask.reject is about the exchange before it, but there was none")
        self._count(self._asked, {"rejected": jnp.asarray(rejected, "int32")})

    def key(self):
        # No client has the number n, so that this key is none of theirs.
        return jax.random.fold_in(self.job.seeds.exchange(self.round, self.state.exchanges), self.job.population.count)

    def refresh(self, x: PyTree) -> None:
        """Let every sampler ask what it wants to know at the parameters x, at call sites named "refresh.0.0" and so on."""
        for number, sampler in enumerate(self.samplers):
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
            vectors_down=vectors(message, params),
            vectors_up=vectors(reply, params),
            bytes_down=payload(message),
            bytes_up=payload(reply),
        )

    def _count(self, site: Site, events: dict):
        self.found[site.path] = site
        if self.sites is not None:
            number = [known.path for known in self.sites].index(site.path)
            self.state = self.state._replace(counts=add_events(self.state.counts, number, events))

    def _place(self, cohort: Cohort) -> int | None:
        return next((k for k, (known, _) in enumerate(self._drawn) if known is cohort), None)

    def _fresh(self, cohort: Cohort):
        """1 if this cohort is asked for the first time since it was drawn; one from elsewhere counts as asked again."""
        place = self._place(cohort)
        if place is None:
            return jnp.zeros((), "int32")
        asked = list(self.state.asked)
        fresh, asked[place] = 1 - asked[place], jnp.ones((), "int32")
        self.state = self.state._replace(asked=tuple(asked))
        return fresh

    def _pause(self, outside: int) -> State:
        """Hand the state out of a body; the cohorts drawn inside it stay inside."""
        del self._drawn[outside:]
        return self.state._replace(asked=self.state.asked[:outside])

    def _resume(self, state: State, outside: int):
        del self._drawn[outside:]
        self.state = state


def exchange_events(cohort: Cohort, fresh, answered, queries, again) -> dict:
    """What one exchange is charged, given each place's `queries` and how often it was asked `again`, both [m]."""
    met = (cohort.size > 0).astype("int32")
    asked = jnp.where(cohort.active, queries, 0)
    return {
        "exchanges": met + jnp.max(again),
        "cohorts": met * fresh,
        "reasks": met * (1 - fresh) * cohort.selections + jnp.max(again),
        "contacts": cohort.size + jnp.sum(again, dtype="int32"),
        "arrivals": jnp.sum(answered, dtype="int32"),
        "queries_slowest": jnp.max(asked),
        "queries_total": jnp.sum(asked, dtype="int32"),
    }


def strongly_typed(tree: PyTree) -> PyTree:
    """Return `tree` as arrays whose types do not yield to others, so that a loop over rounds keeps them."""
    return jax.tree.map(lambda a: jax.lax.convert_element_type(jnp.asarray(a), jnp.asarray(a).dtype), tree)


def finished(done: Done, state: PyTree) -> Done:
    """Return what a local method returned with all parts filled in; a state not returned is the old `state`."""
    return Done(
        strongly_typed(done.reply),
        strongly_typed(state if done.state is None else done.state),
        jnp.asarray(done.queries, "int32"),
    )
