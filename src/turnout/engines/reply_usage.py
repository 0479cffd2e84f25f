"""A survey of an algorithm's calls: where it asks, and which reductions the server applies to the replies of each call."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.accounting.ledger import Site
from turnout.codecs.parts import Shape
from turnout.core.collector import without_collector
from turnout.core.debugging import debugging, shape_of
from turnout.core.errors import UserError
from turnout.core.messages import payload
from turnout.core.own_code import own_mistakes_told
from turnout.core.replies import Replies, Weight
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.inputs import Job
from turnout.engines.state import first_state
from turnout.samplers.base import Sampler

SUMS: tuple[Weight, ...] = ("share", "weight")

ALONE, EACH, WHO, MEAN = "alone", "each", "who", "mean"
"""Uses of replies beside sums with the weights in `SUMS`.

A single client was asked; replies were used one by one; the server used who had answered; a sum was divided by its weights."""


class Drawn(NamedTuple):
    """The number of the sampler that drew a call's cohort, and the path of the draw if it was made for this call alone."""

    sampler: int | None
    path: str | None


class InHubsCall(NamedTuple):
    """The path of a call of `in_hubs`, how the paths of calls begin that hubs make for it, and the shape of a hub's reply."""

    path: str
    inside: str
    reply: Shape


@jax.tree_util.register_static
@dataclass(frozen=True)
class Survey:
    """What a trace of the start and of one round shows.

    Args:
        algorithm: Name of the algorithm.
        sites: Call sites, in the order in which they are reached.
        used: Path of each call, and the uses of its replies.
        drawn: Path of each call, and who drew its cohort.
        state_bytes: Payload bytes of the server's state.
        structure: Structure of the server's state.
        in_hubs: The calls of `in_hubs`.
    """

    algorithm: str
    sites: tuple[Site, ...]
    used: tuple[tuple[str, frozenset[str]], ...]
    drawn: tuple[tuple[str, Drawn], ...]
    state_bytes: int
    structure: Any
    in_hubs: tuple[InHubsCall, ...] = ()

    @property
    def hubs(self) -> tuple[str, ...]:
        """How the paths of calls begin that hubs make by themselves."""
        return tuple(call.inside for call in self.in_hubs)

    def in_hubs_at(self, inside: str) -> InHubsCall:
        """Return the call of `in_hubs` for which hubs make calls whose paths begin with `inside`."""
        return self.in_hubs[self.hubs.index(inside)]

    def uses(self, path: str) -> frozenset[str]:
        """Return the uses of the replies to the call at `path`."""
        return dict(self.used).get(path, frozenset())

    def drawn_by(self, path: str) -> Drawn:
        """Return who drew the cohort of the call at `path`."""
        return dict(self.drawn).get(path, Drawn(None, None))


class RecordedReplies(Replies):
    """Replies that record in `uses` which reductions are applied to them."""

    held: Replies
    uses: set[str]

    def __init__(self, held: Replies, uses: set[str]):
        object.__setattr__(self, "held", held)
        object.__setattr__(self, "uses", uses)
        if held.cohort.selection == "delegate" or held.cohort.places == 1:
            uses.add(ALONE)

    @property
    def values(self):
        self.uses.add(EACH)
        return self.held.values

    @property
    def cohort(self):
        self.uses.add(WHO)
        return self.held.cohort

    @property
    def answered(self):
        self.uses.add(WHO)
        return self.held.answered

    def each(self, of):
        self.uses.add(EACH)
        return self.held.each(of)

    def map(self, change):
        self.uses.add(EACH)
        return self.held.map(change)

    def scaled(self, factors):
        self.uses.add(EACH)
        return self.held.scaled(factors)

    def average(self):
        self.uses.add("weight")
        return self.held.average()

    def total(self):
        self.uses.add("share")
        return self.held.total()

    def mean(self):
        self.uses.update(("share", MEAN))
        return self.held.mean()

    def summed(self, by):
        self.uses.add(by)
        return self.held.summed(by)


class RecordingAsk(CompiledAsk):
    """Answers `ask` while a round is traced, and records how the server uses the replies.

    Attributes:
        uses: Uses of the replies, by the path of the call.
        drawn_by: Who drew the cohort, by the path of the call.
        hubs: The calls of `in_hubs`.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.hubs: list[InHubsCall] = []
        self.uses: dict[str, set[str]] = {}
        self.drawn_by: dict[str, Drawn] = {}

    def survey(self, server: PyTree) -> Survey:
        """Return what was recorded so far.

        Args:
            server: The server's state.
        """
        used = ((path, frozenset(uses)) for path, uses in self.uses.items())
        sites = (*self.calls.reached.values(),)
        drawn = (*self.drawn_by.items(),)
        state = payload(server), jax.tree.structure(server)
        return Survey(type(self.algorithm.addressed).__name__, sites, tuple(used), drawn, *state, (*self.hubs,))

    def draw(self, sampler, method=None, message=None):
        self._draw_path = self.calls.upcoming
        return super().draw(sampler, method, message)

    def __call__(self, who, method, message):
        replies = super().__call__(who, method, message)
        path = self._exchanged.path
        recorded = RecordedReplies(replies, self.uses.setdefault(path, set()))
        if getattr(replies, "losses", None) is not None:
            recorded.uses.add(EACH)
        place = self.draws.place(replies.cohort)
        number = None if place is None else self.draws[place].number
        self.drawn_by[path] = Drawn(number, self._draw_path if isinstance(who, Sampler) else None)
        return recorded

    def _side_by_side(self, path, sizes, message, like, states):
        self.hubs.append(InHubsCall(path, f"{self.calls.upcoming}.loop", Shape.of(like)))
        return super()._side_by_side(path, sizes, message, like, states)

    def _from_hubs(self, path, replies):
        return RecordedReplies(replies, self.uses.setdefault(path, set()))

    def next(self, count=1):
        replies = super().next(count)
        self.uses[self._exchanged.path] = {EACH}
        return replies

    # With numbers a loop may have no pass, and one of two branches is not taken: their calls would not be seen.

    def loop(self, count, body, carry, until=None):
        if not debugging():
            return super().loop(count, body, carry, until)
        return self._each_once(len(self.draws), {f"{self.calls.next_path()}.loop": body}, carry)[0]

    def cond(self, predicate, then, otherwise, carry):
        if not debugging():
            return super().cond(predicate, then, otherwise, carry)
        outside, path = len(self.draws), self.calls.next_path()
        results = self._each_once(outside, {f"{path}.then": then, f"{path}.otherwise": otherwise}, carry)
        return results[0] if predicate else results[1]

    def _each_once(self, outside, bodies: dict[str, Callable], carry: PyTree) -> list[PyTree]:
        """Return what each of the `bodies`, by their paths, makes of `carry`."""
        start = self._pause(outside), strongly_typed(carry)
        results = [self._traced(path, body, outside, start) for path, body in bodies.items()]
        self._resume(results[-1][0], outside)
        return [carry for _, carry in results]

    def observe(self, replies, feedback=None):
        super().observe(self._observed(replies, feedback), feedback)

    def _observed(self, replies, feedback):
        """Return the replies without the record; a sampler that learns from them uses each."""
        if not isinstance(replies, RecordedReplies):
            return replies
        sampler = self.draws.sampler(replies.held.cohort)
        if feedback is None and sampler is not None and sampler.learns_from_feedback:
            replies.uses.add(EACH)
        return replies.held

    def _consult(self, number, path, method, message):
        super()._consult(number, path, method, message)
        self.uses[f"{path}.preview" if self.draws.samplers[number].is_charged else path] = {EACH}


@jax.jit
def _survey(job: Job, algorithm) -> Survey:
    ask = RecordingAsk(job, algorithm, jnp.zeros((), "int32"), first_state(job, algorithm, sites=()), None)
    server = ask.start(job.start)
    ask.refresh(algorithm.output(server))
    _refuse_another_state(algorithm, server, algorithm.round(ask, server))
    return ask.survey(server)


def _refuse_another_state(algorithm, before: PyTree, after: PyTree) -> None:
    """Raise `UserError` where a round returns a state of other arrays than it gets."""
    held, returned = (jax.tree.map(_type, state) for state in (before, after))
    if held != returned:
        name, what = type(algorithm.addressed).__name__, "nothing" if after is None else f"a state of {returned}"
        raise UserError(f"{name}.round gets a state of {held} and returns {what}: return the new state, of the same types")


def _type(leaf) -> str:
    """Return type and shape of an array, as JAX writes them."""
    return f"{jnp.result_type(leaf)}{[*jnp.shape(leaf)]}".replace(" ", "")


@own_mistakes_told
def survey(job: Job, algorithm) -> Survey:
    """Trace the start and one round without running them; runs of the same shapes share one trace."""
    with without_collector():
        return shape_of(_survey, job, algorithm)


def why_not_one_sum(uses: Set[str]) -> str | None:
    """Return why one weighted sum does not suffice for these `uses` of replies; None if it does."""
    if ALONE in uses:
        return "it asks one client alone"
    if EACH in uses:
        return "the server looks at each reply"
    if uses >= {*SUMS}:
        return "the server takes sums with two kinds of weights, lambda_i and lambda_i / p_i"
    return None


def refuse_single_replies(surveyed: Survey) -> None:
    """Raise `UserError` where the server of a surveyed algorithm does more than take sums and means of replies."""
    for site in surveyed.sites:
        uses = surveyed.uses(site.path)
        if uses & {ALONE, EACH}:
            raise UserError(
                f"{surveyed.algorithm} does more than average replies: of its call {site.method!r} ({site.selection}) "
                f"{why_not_one_sum(uses)}; take another algorithm or sampler, or aggregation = 'plain'"
            )


def sums_needed(surveyed: Survey, instead: str) -> dict[str, Weight]:
    """Return the weights of the one sum that each call needs; `UserError` where a call needs more.

    Args:
        surveyed: The algorithm's calls.
        instead: Setting that the error recommends.
    """
    weights: dict[str, Weight] = {}
    for site in surveyed.sites:
        uses = surveyed.uses(site.path)
        why = why_not_one_sum(uses)
        if why is not None:
            raise UserError(
                f"{surveyed.algorithm} needs more than sums of replies: of its call {site.method!r} "
                f"({site.selection}) {why}; take another algorithm or sampler (turnout describe tells which qualify), or "
                f"{instead}"
            )
        weights[site.path] = weight_of(uses)
    return weights


def weight_of(uses: Set[str]) -> Weight:
    """Return the weights of the one sum that suffices for these `uses` of replies."""
    return "weight" if "weight" in uses else "share"
