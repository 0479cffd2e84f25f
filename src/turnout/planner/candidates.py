"""Families of candidates: the methods of a study, and the structures of their grids."""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from turnout.accounting.ledger import EVENTS
from turnout.accounting.prices import Price
from turnout.core.errors import UserError
from turnout.engines.cost_estimate.estimate import Call, CostEstimate
from turnout.experiment.describe import plan_for
from turnout.experiment.experiment import Experiment
from turnout.planner.race import Outcome, Place
from turnout.planner.task import Limits
from turnout.planner.trials import Trial, TrialStore
from turnout.runs.session import Session
from turnout.studies.cases import Cases
from turnout.studies.declaration import Declaration
from turnout.studies.grid import Setting, settings_of
from turnout.studies.plan import Program, program_of
from turnout.studies.play import session_for
from turnout.studies.resolved import Resolved, grouped, resolve

SIZE = "sampler.size"
"""The key of the size of cohorts in a grid."""

OF_CLIENTS = (
    "drawn",
    "contacts",
    "arrivals",
    "aggregated",
    "queries_total",
    "vectors_down",
    "vectors_up",
    "server_contacts",
    "server_arrivals",
    "server_bytes_down",
    "server_bytes_up",
    "bytes_down",
    "bytes_up",
)
"""Events of which an exchange has more the more clients it is with."""

FREE, ALL = 1.5, 8.0
"""Clients cost next to nothing where an exchange with ten costs at most `FREE` times as much as one with a single client, and are
all that costs where it is at least `ALL` times."""


class Structure:
    """Settings of a family that share a compiled program, and their trials.

    Args:
        declaration: The declaration.
        group: The settings.
        leaves: The keys of the numbers in which they differ.
        store: Where trials are kept.
        quick: Whether its program is made to compile quickly, for short runs.
    """

    def __init__(self, declaration: Declaration, group: list[Resolved], leaves: list[str], store: TrialStore, quick: bool):
        self.declaration, self.group, self.leaves, self.store, self.quick = declaration, group, leaves, store, quick
        self.why = ""
        self._sessions: dict[int, list[Session | None]] = {}
        self._programs: dict[int, Program] = {}
        self._estimates: dict[int, CostEstimate] = {}

    def estimate(self, k: int) -> CostEstimate:
        """Return what two rounds of the `k`-th setting send, store and compute."""
        if k not in self._estimates:
            one = self.group[k]
            run, algorithm = one.experiment.run, one.experiment.algorithm
            options = {"seeds": run.purpose_seeds(), "rounds": 2, "precision": run.precision}
            self._estimates[k] = plan_for(algorithm, one.case.problem, **options)
        return self._estimates[k]

    def trial(self, k: int, seed: int) -> Trial:
        """Return the trial of the `k`-th setting with a seed."""
        if seed not in self._programs:
            self._programs[seed] = program_of(self.declaration, self.group, self.leaves, (seed,), "report")
        return self.store.trial(self._programs[seed].runs[k].key, lambda: self._session(k, seed))

    @property
    def seeds(self) -> list[int]:
        """The seeds that have been asked for."""
        return [*self._programs]

    def forget(self) -> None:
        """Free what sessions that will not go on hold of the problem."""
        self._sessions.clear()

    def _session(self, k: int, seed: int) -> Session:
        """Return the session of a setting; those of a seed are made together and share a program."""
        program, case = self._programs[seed], self.group[0].case
        if not program.compiled:
            one = Program(program.experiment, (program.runs[k],), program.stops)
            return session_for(one, case)
        if seed not in self._sessions:
            self._sessions[seed] = [*session_for(program, case, quick=self.quick).split()]
        session, self._sessions[seed][k] = self._sessions[seed][k], None
        if session is None:
            raise UserError("a trial is played by one session")
        return session


class Contender:
    """A setting, which can be played with any seed.

    Args:
        structure: Its structure.
        number: Its number there.
    """

    def __init__(self, structure: Structure, number: int):
        self.structure, self.number = structure, number

    @property
    def setting(self) -> Setting:
        """What it sets."""
        return self.structure.group[self.number].setting

    @property
    def experiment(self) -> Experiment:
        """Its configuration."""
        return self.structure.group[self.number].experiment

    def trial(self, seed: int) -> Trial:
        """Return its run with a seed."""
        return self.structure.trial(self.number, seed)

    def trials(self) -> list[Trial]:
        """Return its runs with all seeds that its structure has been asked for."""
        return [self.trial(seed) for seed in self.structure.seeds]


class Priced:
    """A contender at a price: a candidate of a race.

    Args:
        contender: The contender.
        price: The price.
        store: Where its trials are kept.
        budget: The most that a run may cost.
    """

    def __init__(self, contender: Contender, price: Price, store: TrialStore, budget: float):
        self.contender, self.price, self.store, self.budget = contender, price, store, budget

    def play(self, seed: int, cap: float) -> Outcome:
        """Play the run with `seed` up to a cost of `cap`, and the budget at most."""
        outcome = self.contender.trial(seed).play(self.price, min(cap, self.budget))
        self.store.write()
        if outcome.spent < self.budget:
            return outcome
        return Outcome(outcome.cost if outcome.cost <= self.budget else math.inf, outcome.spent, over=True)


class Family:
    """A method of a declaration on its problem, as a family of structures.

    Args:
        declaration: The declaration.
        name: The name of the method.
        cases: Builds the problem.
        store: Where trials are kept.
        limits: What is allowed.
        quick: Whether programs are made to compile quickly, for short runs.

    Raises:
        UserError: If its grid does not fit the problem.
    """

    def __init__(
        self, declaration: Declaration, name: str, cases: Cases, store: TrialStore, limits: Limits, *, quick: bool = True
    ):
        self.name, self.limits = name, limits
        (problem,) = declaration.problems
        settings = settings_of(declaration, problem, name)
        resolved = [resolve(declaration, (0, k), setting, cases) for k, setting in enumerate(settings)]
        values: dict[str, list] = {}
        for setting in settings:
            for key, value in setting.values.items():
                values.setdefault(key, [])
                values[key] += [] if value in values[key] else [value]
        self.structures: dict[Place, Structure] = {}
        for group, leaves in grouped(resolved, settings, set()):
            own = group[0].setting.values
            place = tuple(values[key].index(own[key]) if key in own and key not in leaves else 0 for key in values)
            self.structures[place] = Structure(declaration, group, leaves, store, quick)
        self._values = values
        self._contenders: dict[Place, list[Contender]] = {}

    def centre(self, large: bool = False) -> Place:
        """Return the fitting structure that is nearest to the middle of the grid, or with `large` to its largest cohorts."""
        middle = [(len(values) - 1) / 2 for values in self._values.values()]
        if large:
            middle = [
                len(self._values[key]) - 1 if key == SIZE else index for key, index in zip(self._values, middle, strict=True)
            ]
        places = sorted(self.structures, key=lambda place: self._distance(place, middle))
        return next((place for place in places if self.contenders(place)), places[0])

    def neighbours(self, place: Place) -> list[Place]:
        """Return the structures that differ by one step in one key."""
        return [other for other in self.structures if sum(abs(a - b) for a, b in zip(place, other, strict=True)) == 1]

    def contenders(self, place: Place) -> Sequence[Contender]:
        """Return the settings of a structure; none where it does not fit."""
        if place not in self._contenders:
            structure = self.structures[place]
            try:
                structure.trial(0, 0)
                whole = [Contender(structure, k) for k in range(len(structure.group))]
                self._contenders[place] = [one for one in whole if not self._above(one)]
            except UserError as error:
                structure.why, self._contenders[place] = str(error.__cause__ or error), []
        return self._contenders[place]

    def played(self, place: Place) -> Sequence[Contender]:
        """Return the settings of a structure that has been asked for; none of another one."""
        return self._contenders.get(place, [])

    def at_an_end(self, key: str, value: Any) -> bool:
        """Return whether a number is the smallest or the largest one of its grid; a share of all clients cannot be larger."""
        values = self._values[key]
        if len(values) < 2 or not isinstance(value, int | float):
            return False
        return value == min(values) or (value == max(values) and (key, value) != (SIZE, 1.0))

    def _above(self, one: Contender) -> bool:
        """Return whether a contender is above the limits; note why."""
        whys = self._broken(one.structure, one.number)
        one.structure.why = next(iter(whys.values()), one.structure.why)
        return bool(whys)

    def _broken(self, structure: Structure, k: int) -> dict[str, str]:
        """Return why the `k`-th setting of a structure is above the limits, by the limit."""
        # Oracle calls depend on numbers; what is stored and sent does not.
        judged = k if self.limits.client_queries is not None else 0
        return above(structure.estimate(judged), self.limits) if self.limits.estimated else {}

    def hindrance(self) -> set[str] | None:
        """Return the fewest limits that a setting which fits the problem is above; None where none fits."""
        fewest = None
        for structure in self.structures.values():
            with suppress(UserError):
                structure.trial(0, 0)
                for k in range(len(structure.group)):
                    broken = {*self._broken(structure, k)}
                    fewest = broken if fewest is None or len(broken) < len(fewest) else fewest
                    if len(fewest) < 2:
                        # An estimate takes a while.
                        return fewest
        return fewest

    @property
    def why(self) -> str:
        """Why none of its structures fits; "" where one does."""
        return "" if any(self.contenders(place) for place in self.structures) else next(iter(self.structures.values())).why

    def _distance(self, place: Place, middle: list[float]) -> float:
        """Return the number of steps from a structure to a place in the grid."""
        return sum(abs(index - other) for index, other in zip(place, middle, strict=True))


class PricedFamily:
    """A family at a price: what a race plays.

    Args:
        family: The family.
        price: The price.
        store: Where trials are kept.
        budget: The most that a run may cost.
    """

    def __init__(self, family: Family, price: Price, store: TrialStore, budget: float):
        self.family, self.name = family, family.name
        self.price, self.store, self.budget = price, store, budget

    def centre(self) -> Place:
        """Return the structure to begin with: that with the largest cohorts where clients cost next to nothing."""
        return self.family.centre(large=cost_of_ten(self.price) <= FREE)

    def second_chances(self) -> list[Place]:
        """Return the structure with the largest cohorts where the price alone does not tell which cohorts are cheap."""
        return [self.family.centre(large=True)] if FREE < cost_of_ten(self.price) < ALL else []

    def neighbours(self, place: Place) -> list[Place]:
        """Return the structures that differ by one step in one key."""
        return self.family.neighbours(place)

    def candidates(self, place: Place) -> list[Priced]:
        """Return the candidates of a structure."""
        return [Priced(contender, self.price, self.store, self.budget) for contender in self.family.contenders(place)]


def cost_of_ten(price: Price) -> float:
    """Return the cost of an exchange with ten clients over that of one with a single client; 1 where that is free.

    Args:
        price: The price.
    """
    events = ({event: clients if event in OF_CLIENTS else 1.0 for event in EVENTS} for clients in (1.0, 10.0))
    one, ten = (float(price.cost(each)) for each in events)
    return ten / one if one else 1.0


def above(estimate: CostEstimate, limits: Limits) -> dict[str, str]:
    """Return why a structure is above the limits, by the limit.

    Args:
        estimate: What it sends, stores and computes.
        limits: The limits.
    """
    whys = {}
    if not limits.private_states and estimate.client.vectors:
        whys["private_states"] = "its clients keep vectors, and private_states is false"
    if limits.sums_only and not estimate.sums_only:
        whys["sums_only"] = "its server uses more than sums of replies, and sums_only is true"
    if limits.client_bytes is not None and estimate.client.bytes > limits.client_bytes:
        whys["client_bytes"] = f"its clients keep {estimate.client.bytes:,} bytes, above client_bytes"
    queries = max(map(_queries, estimate.calls), default=0.0)
    if limits.client_queries is not None and queries > limits.client_queries:
        most = f"{queries:.4g}" if math.isfinite(queries) else "any number of"
        whys["client_queries"] = f"its clients make {most} oracle calls in an exchange, above client_queries"
    return whys


def _queries(call: Call) -> float:
    """Return the most oracle calls of a client in an exchange of a call, infinite where there is no bound."""
    counts = call.counts.get("queries_slowest"), call.counts.get("exchanges")
    if counts[0] is None or counts[1] is None or not counts[1].least:
        return 0.0
    return math.inf if counts[0].most is None else counts[0].most / counts[1].least
