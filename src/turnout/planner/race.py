"""The race: find the candidate that reaches the target most cheaply, and play none further than it takes to know.

Candidates are played on one seed up to a cap on their cost, which doubles until one of them arrives; from then on it is a small
multiple of the least cost so far. A family starts with one structure and moves to better neighbours while its best candidate is
within reach of the leader; one that is not has a second chance. Candidates also play a second seed, since one seed alone may be
luck. The cheapest ones then meet on further seeds, and those that cost more than the leader by a paired interval drop out. A
final on fresh seeds decides.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from scipy.stats import t as student

REACH = (3.0, 2.0, 1.5)
"""A family moves on while its best candidate costs at most so many times as much as the leader: once for each of these."""

SLACK = 1.25
"""How far a candidate is played, in multiples of the cost that it has to beat: seeds differ."""

CLOSE = 1.6
"""Candidates that cost at most so many times the least cost on one of the first two seeds are played on further ones."""

MOST = 24
"""The most candidates that are played on further seeds."""

SEEDS = (1, 2, 3, 4)
"""The further seeds of the race; the first is 0."""

FEWEST = 3
"""Seeds from which candidates may drop out."""

LEVEL = 0.9
"""Confidence of the paired intervals by which candidates drop out."""

CENSORED = 2.0
"""On further seeds candidates are played to this multiple of the leader's cost, which counts as theirs if they are above it."""

LONGEST = 8.0
"""How far the leader is played on a further seed, in multiples of its largest cost so far."""

LEAST = float(np.finfo(float).tiny)
"""A cap that the first round is above, whatever it costs."""

Place = tuple[int, ...]
"""Where a structure is in its family's grid: the number of the value of each key."""


class Outcome(NamedTuple):
    """What a candidate's run came to.

    Args:
        cost: The cost of the target; infinite where it is not reached, or not yet.
        spent: The cost of what has been played.
        over: Whether the run has ended.
    """

    cost: float
    spent: float
    over: bool


@runtime_checkable
class Candidate(Protocol):
    """A setting of a family, which can be played."""

    def play(self, seed: int, cap: float) -> Outcome:
        """Play the run with `seed` until it reaches the target or its cost is at least `cap`; it goes on where it was."""
        ...


C = TypeVar("C", bound=Candidate)
Offered = TypeVar("Offered", bound=Candidate, covariant=True)


@runtime_checkable
class Family(Protocol[Offered]):
    """Candidates of one kind, in structures: those of a structure differ in numbers only."""

    name: str

    def centre(self) -> Place:
        """Return the structure to begin with."""
        ...

    def second_chances(self) -> Iterable[Place]:
        """Return the structures that are played where those beside the centre are too dear."""
        ...

    def neighbours(self, place: Place) -> Iterable[Place]:
        """Return the structures that differ from that at `place` by one step in one key."""
        ...

    def candidates(self, place: Place) -> Sequence[Offered]:
        """Return the candidates of a structure; none where it does not fit the problem."""
        ...


@dataclass
class Standing(Generic[C]):
    """What is known of a family: the candidates of each structure that was played, and their costs on the first seed."""

    family: Family[C]
    costs: dict[Place, dict[C, float]] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """The structure with the cheapest candidate; of several the first that was played."""
        return min(self.costs, key=lambda place: min(self.costs[place].values(), default=math.inf))

    @property
    def best(self) -> float:
        """The cost of the cheapest candidate."""
        return min((cost for costs in self.costs.values() for cost in costs.values()), default=math.inf)

    def unplayed(self) -> list[Place]:
        """Return the neighbours of the best structures that have not been played; costs that are small integers often tie."""
        best = [place for place, costs in self.costs.items() if min(costs.values(), default=math.inf) == self.best]
        beside = dict.fromkeys(place for one in best for place in self.family.neighbours(one))
        return [place for place in beside if place not in self.costs]


class Race(Generic[C]):
    """Plays candidates of several families against each other on seed 0, and the best of them on further seeds.

    Args:
        families: The families.
        watch: Called after each run that was played, with what the race is doing; may raise to interrupt it.
    """

    def __init__(self, families: Sequence[Family[C]], watch: Callable[[str], None] = lambda _: None):
        self.standings = [Standing(family) for family in families]
        self.watch = watch

    @property
    def best(self) -> float:
        """The least cost on the first seed."""
        return min((standing.best for standing in self.standings), default=math.inf)

    def explore(self) -> None:
        """Play families on the first seed, each from its centre to better neighbours; lost ones have a second chance."""
        self._begin()
        while math.isinf(self.best) and (further := [(one, place) for one in self.standings for place in self._beside(one)]):
            for standing, place in further:
                self._enter(standing, place, math.inf)
        self._climb()
        for standing in self.standings:
            if standing.best > REACH[0] * self.best:
                for place in standing.family.second_chances():
                    self._enter(standing, place, SLACK * self.best)
        self._climb()

    def close(self) -> list[C]:
        """Return the candidates that are close to the least cost on one of the first two seeds, and the best of each family.

        They are in the order of the product of both costs over the least ones, each taken for the reach of a family where it is
        above. They are `MOST` at most, the best of each family within reach among them: the leader may be lucky.
        """
        within = [standing for standing in self.standings if standing.best <= REACH[0] * self.best]
        families = [{one: cost for costs in standing.costs.values() for one, cost in costs.items()} for standing in within]
        first = {one: min(cost / self.best, REACH[0]) for costs in families for one, cost in costs.items()}
        second = self._second_seed(sorted(first, key=lambda one: first[one]))
        scores = {one: first[one] * second[one] for one in first}
        near: list[tuple[int, float, int, C]] = []
        for costs in families:
            for rank, one in enumerate(sorted(costs, key=lambda one: scores[one])):
                if not rank or min(first[one], second[one]) <= CLOSE:
                    near.append((min(rank, 1), scores[one], len(near), one))
        kept = sorted(near, key=lambda row: row[:3])[:MOST]
        return [one for *_, one in sorted(kept, key=lambda row: row[1:3])]

    def narrow(self, candidates: list[C]) -> dict[C, list[float]]:
        """Play candidates on further seeds, and return the costs of those that remain, cheapest first.

        Costs above a cap count as the cap, which the leader of the seeds before sets.
        """
        most = LONGEST * self.best
        costs = {one: [min(one.play(0, most).cost, most)] for one in candidates}
        for seed in SEEDS:
            cap, least = LONGEST * max(next(iter(costs.values()), [0.0])), math.inf
            for one, own in costs.items():
                cost = one.play(seed, cap).cost
                own.append(min(cost, cap))
                least = min(least, cost)
                cap = min(cap, CENSORED * least)
                self.watch(f"seed {seed}")
            costs = dict(sorted(costs.items(), key=lambda pair: (float(np.median(pair[1])), float(np.mean(np.log(pair[1]))))))
            leader = next(iter(costs.values()), [])
            costs = {one: own for one, own in costs.items() if len(own) < FEWEST or not costs_more(own, leader)}
        return costs

    def _begin(self) -> None:
        """Play the centre of each family up to a cap, which doubles until it is beyond the reach of the leader."""
        for standing in self.standings:
            self._enter(standing, standing.family.centre(), LEAST)
        field = [(costs, one) for standing in self.standings for costs in standing.costs.values() for one in costs]
        outcomes = {one: one.play(0, 0.0) for _, one in field}
        cap = 2 * min((outcome.spent for outcome in outcomes.values() if outcome.spent > 0), default=math.inf)
        while True:
            for costs, one in field:
                outcomes[one] = one.play(0, min(cap, REACH[0] * self.best))
                costs[one] = outcomes[one].cost
                self.watch("first seed")
            if cap >= REACH[0] * self.best or all(outcome.over for outcome in outcomes.values()):
                break
            cap *= 2

    def _climb(self) -> None:
        """Play the neighbours of the best structures of families within reach, as long as these are better."""
        for reach in REACH:
            while further := [
                (one, place) for one in self.standings if one.best <= reach * self.best for place in one.unplayed()
            ]:
                for standing, place in further:
                    self._enter(standing, place, max(SLACK * self.best, standing.best))

    def _second_seed(self, candidates: list[C]) -> dict[C, float]:
        """Return what candidates cost on the second seed, over the least cost there, at most the reach of a family."""
        costs, least = {}, math.inf
        for one in candidates:
            costs[one] = one.play(SEEDS[0], min(LONGEST * self.best, REACH[0] * least)).cost
            least = min(least, costs[one])
            self.watch(f"seed {SEEDS[0]}")
        # Where the target holds at the start it costs nothing.
        return {one: min(cost / max(least, LEAST), REACH[0]) if math.isfinite(cost) else REACH[0] for one, cost in costs.items()}

    def _enter(self, standing: Standing[C], place: Place, cap: float) -> None:
        """Play the candidates of a structure on the first seed up to `cap`."""
        costs = standing.costs.setdefault(place, {})
        for one in standing.family.candidates(place):
            costs[one] = one.play(0, cap).cost
            self.watch(standing.family.name)

    def _beside(self, standing: Standing[C]) -> list[Place]:
        """Return all unplayed neighbours of the structures of a family."""
        places = (place for known in list(standing.costs) for place in standing.family.neighbours(known))
        return list(dict.fromkeys(place for place in places if place not in standing.costs))


def costs_more(costs: Sequence[float], leader: Sequence[float]) -> bool:
    """Return whether costs are above those of the leader on the same seeds, by Student's interval of the mean log ratio."""
    ratios = np.log(costs) - np.log(leader)
    mean, error = float(ratios.mean()), float(ratios.std(ddof=1)) / math.sqrt(ratios.size)
    return mean > max(0.0, float(student.ppf((1 + LEVEL) / 2, ratios.size - 1)) * error)
