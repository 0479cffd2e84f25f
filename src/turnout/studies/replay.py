"""Published results that are played again, as many of their rows as the time allows."""

import math
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import polars as pl

from turnout.core.errors import UserError
from turnout.studies.cases import Cases
from turnout.studies.conduct import Player, Progress, assembled
from turnout.studies.costs import costs, run_costs
from turnout.studies.declaration import Declaration
from turnout.studies.files import file_name
from turnout.studies.plan import plan_of
from turnout.studies.published import NUMBERS, Published, Row
from turnout.studies.store import Store
from turnout.studies.verdicts import DIFFERS, verdict

MEASURED = 2.0
"""Seconds of rounds from which the length of a run is foretold."""

TIMES = 10.0
"""How many times as long as others a further row may take."""

Check = Callable[[], None]
"""Called as runs go on; may raise to interrupt them."""

Part = tuple[str, str, str]
"""A problem, a method and a setting, whose runs are in a row of each table."""


class OutOfTime(BaseException):
    """Runs are not over when their time is; not an error of theirs, which would be kept.

    Args:
        seconds: What one seed takes, or up to that, at the pace of its first rounds; infinite where it is not known.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds


@dataclass
class Clock:
    """Watches the progress of runs, and ends them where they will not be over in time.

    Args:
        end: When they have to be over, by the monotonic clock.
        whole: Whether they play all their rounds, so that the pace tells when they end.
        check: Called at each progress.
    """

    end: float
    whole: bool
    check: Check
    began: float = field(default_factory=time.monotonic)
    calls: int = 0
    first: tuple[float, int] = (0.0, 0)

    def __call__(self, now: Progress) -> None:
        """Note the progress; `OutOfTime` where it is too slow."""
        self.check()
        moment = time.monotonic()
        self.calls += 1
        # The program is compiled between the first call, before any round, and the second.
        if self.calls <= 2:
            self.first = moment, now.rounds
        since, rounds = moment - self.first[0], now.rounds - self.first[1]
        left = since / rounds * (now.all_rounds - now.rounds) if rounds else math.inf
        late = moment > self.end or (self.whole and since > MEASURED and moment + left > self.end)
        if late and now.runs < now.all_runs:
            raise OutOfTime(moment - self.began + left)


@dataclass(frozen=True)
class Held:
    """A row of a published table that was played again.

    Args:
        table: The table.
        part: Its problem, method and setting.
        verdict: One of `turnout.studies.verdicts.VERDICTS`.
        published: The published numbers.
        now: Those of the runs; none where these broke.
        seeds: The number of seeds that were played.
        why: What broke.
    """

    table: str
    part: Part
    verdict: str
    published: Row
    now: dict[str, float] | None
    seeds: int
    why: str = ""


class Replay:
    """Plays rows of one published result again.

    Args:
        published: What is published.
        declaration: The study, as it is declared now.
        cases: Problems.
        rng: Chooses the order of the rows.
        wanted: The names of the problems and of the methods that are played; None for all.
    """

    def __init__(
        self,
        published: Published,
        declaration: Declaration,
        cases: Cases,
        rng: random.Random,
        wanted: tuple[list[str] | None, list[str] | None] = (None, None),
    ):
        self.published, self.declaration, self.cases = published, declaration, cases
        names = {file_name(f"{goal}, {price}"): (goal, price) for goal in declaration.goals for price in declaration.prices}
        self.asked = {table: names[table] for table, rows in published.tables.items() if rows and table in names}
        self.rows: dict[Part, dict[str, Row]] = {}
        for table in self.asked:
            for row in published.tables[table]:
                if all(some is None or row[key] in some for key, some in zip(("problem", "method"), wanted, strict=True)):
                    self.rows.setdefault((row["problem"], row["method"], row["setting"]), {})[table] = row
        self.waiting = rng.sample(list(self.rows), len(self.rows))
        self.held: list[Held] = []
        self.reasons: dict[Part, str] = {}
        self.late: dict[Part, float] = {}
        self.seconds: list[float] = []

    @property
    def whole(self) -> bool:
        """Whether runs play all their rounds, as those without a goal that stops do."""
        return not any(goal.stop for goal in self.declaration.goals.values())

    @property
    def typical(self) -> float:
        """The seconds that a part took so far, in the mean; 0 before the first."""
        return fmean(self.seconds) if self.seconds else 0.0

    def unseen(self, parts: Iterable[Part]) -> list[Part]:
        """Return those of `parts` that are in a table of which no row was played."""
        seen = {one.table for one in self.held}
        return [part for part in parts if not seen >= {*self.rows[part]}]

    def play(self, part: Part, seconds: float, check: Check) -> None:
        """Hold what is published of a part against its runs: all of them, or that of one seed where all take too long.

        Args:
            part: The part.
            seconds: The time that there is.
            check: Called as runs go on; may raise to interrupt.
        """
        self.waiting = [other for other in self.waiting if other != part]
        began = time.monotonic()
        try:
            self._play(part, began + seconds, check)
        except UserError as error:
            # The cause alone is the same for all parts that have it.
            self.reasons[part] = str(error.__cause__ or error)
            return
        except OutOfTime as late:
            self.late[part] = late.seconds
        else:
            self.late.pop(part, None)
        self.seconds.append(time.monotonic() - began)

    def _play(self, part: Part, end: float, check: Check) -> None:
        """Play a part until `end`; `OutOfTime` where not even one seed is over."""
        seeds = len(self.declaration.seeds_of(part[0], part[1], "report"))
        if any(row["seeds"] != seeds for row in self.rows[part].values()):
            raise UserError(f"by now the study has {seeds} seeds there")
        if seeds > 1:
            try:
                now = time.monotonic()
                self._hold(part, None, Clock(end if self.whole else (now + end) / 2, self.whole, check))
                return
            except OutOfTime as late:
                if self.whole and late.seconds / seeds > end - time.monotonic():
                    raise OutOfTime(late.seconds / seeds) from None
        self._hold(part, 1, Clock(end, self.whole, check))

    def _hold(self, part: Part, seeds: int | None, watch: Clock) -> None:
        """Play a part, and hold the rows of all tables that have it against the runs."""
        rows, broken = played(self.declaration, part, seeds, self.cases, watch)
        for table, row in self.rows[part].items():
            goal, price = self.asked[table]
            runs = run_costs(rows, self.declaration.goals[goal], self.declaration.prices[price]) if not rows.is_empty() else rows
            if broken or runs.is_empty():
                self.held.append(Held(table, part, DIFFERS, row, None, 0, next(iter(broken), "nothing is measured")))
                continue
            facts, paid = costs(runs).row(0, named=True), runs["cost"].to_numpy()
            now = {name: float(facts[name]) for name in NUMBERS}
            self.held.append(Held(table, part, verdict(row, now, paid, self.published.exact), row, now, paid.size))


def played(declaration: Declaration, part: Part, seeds: int | None, cases: Cases, watch: Clock) -> tuple[pl.DataFrame, list[str]]:
    """Play the reported runs of a part, and return their rows, and what broke.

    Args:
        declaration: The study.
        part: The problem, the method and the setting.
        seeds: The most seeds; None for all.
        cases: The problems.
        watch: Told the progress.
    """
    problem, method, setting = part
    own = declaration.part([problem], [method], seeds)
    programs = plan_of(own, cases, "report", {(problem, method): {setting}})
    if not programs:
        raise UserError("by now the study does not have this setting")
    with TemporaryDirectory(prefix="turnout-") as folder:
        store = Store(Path(folder))
        player = Player(store, cases, 1, watch, Progress(), None)
        player.play(programs)
        rows = assembled(programs, store)
    return rows, [why for _, why in player.broken.values()]


def replay(replays: list[Replay], seconds: float, rng: random.Random, tell: Callable[[Replay, Part, float], None]) -> None:
    """Play rows again: first one of each table, then what took too long for that, if there is time, then further ones.

    Args:
        replays: The results.
        seconds: The time that there is.
        rng: Chooses the order.
        tell: Told what is played and the seconds that are left, as runs go on; may raise to interrupt.
    """
    end = time.monotonic() + seconds

    def left() -> float:
        return end - time.monotonic()

    def play(one: Replay, part: Part, given: float) -> None:
        one.play(part, given, lambda: tell(one, part, left()))

    order = rng.sample(replays, len(replays))
    for number, one in enumerate(order):
        # What one result does not need is there for those after it.
        until = time.monotonic() + left() / (len(order) - number)
        while (parts := one.unseen(one.waiting)) and (given := until - time.monotonic()) > one.typical:
            play(one, parts[0], given)
    late = [(needed, one, part) for one in order for part, needed in one.late.items()]
    for needed, one, part in sorted(late, key=lambda each: each[0]):
        if one.unseen([part]) and (needed < left() or not one.whole):
            play(one, part, left())
    while ready := [one for one in order if one.waiting and left() > max(one.typical, MEASURED)]:
        one = rng.choice(ready)
        play(one, one.waiting[0], min(left(), TIMES * max(one.typical, MEASURED)))
