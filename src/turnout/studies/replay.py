"""A published row that is played again, as far as its time allows."""

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from turnout.core.errors import UserError
from turnout.studies.cases import Cases
from turnout.studies.conduct import Player, Progress, assembled
from turnout.studies.costs import costs, run_costs
from turnout.studies.declaration import Declaration
from turnout.studies.plan import plan_of
from turnout.studies.published import NUMBERS, Part, Published, Row, tables_of
from turnout.studies.store import Store
from turnout.studies.verdicts import DIFFERS, verdict

MEASURED = 2.0
"""Seconds of rounds from which the length of a run is foretold."""


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


@dataclass(frozen=True)
class Outcome:
    """What came of a part.

    Args:
        held: Its rows.
        reason: Why it was not played, but for the time.
        needed: The seconds that one seed takes, or up to that, where there was no time; infinite where that is not known.
    """

    held: tuple[Held, ...] = ()
    reason: str = ""
    needed: float | None = None


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
    """

    end: float
    whole: bool
    began: float = field(default_factory=time.monotonic)
    calls: int = 0
    first: tuple[float, int] = (0.0, 0)

    def __call__(self, now: Progress) -> None:
        """Note the progress; `OutOfTime` where it is too slow."""
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


def whole(declaration: Declaration) -> bool:
    """Return whether runs play all their rounds, as those without a goal that stops do."""
    return not any(goal.stop for goal in declaration.goals.values())


def hold(published: Published, declaration: Declaration, cases: Cases, part: Part, seconds: float) -> Outcome:
    """Hold what is published of a part against its runs: all of them, or that of one seed where all take too long.

    Args:
        published: What is published.
        declaration: The study, as it is declared now.
        cases: Its problems.
        part: The problem, the method and the setting.
        seconds: The time that there is.
    """
    end, rows = time.monotonic() + seconds, tables_of(published, declaration)[part]
    seeds, even = len(declaration.seeds_of(part[0], part[1], "report")), whole(declaration)
    if any(row["seeds"] != seeds for row in rows.values()):
        return Outcome(reason=f"by now the study has {seeds} seeds there")

    def held(count: int | None, clock: Clock) -> Outcome:
        runs, broken = played(declaration, part, count, cases, clock)
        return Outcome(tuple(held_row(published, declaration, part, table, row, runs, broken) for table, row in rows.items()))

    try:
        if seeds > 1:
            try:
                return held(None, Clock(end if even else end - seconds / 2, even))
            except OutOfTime as late:
                if even and late.seconds / seeds > end - time.monotonic():
                    return Outcome(needed=late.seconds / seeds)
        return held(1, Clock(end, even))
    except UserError as error:
        # The cause alone is the same for all parts that have it.
        return Outcome(reason=str(error.__cause__ or error))
    except OutOfTime as late:
        return Outcome(needed=late.seconds)


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
        player = Player(store, cases, 1, watch, Progress())
        player.play(programs)
        rows = assembled(programs, store)
    return rows, [why for _, why in player.broken.values()]


def held_row(
    published: Published,
    declaration: Declaration,
    part: Part,
    table: tuple[str, str, str],
    row: Row,
    runs: pl.DataFrame,
    broken: list[str],
) -> Held:
    """Hold a row of a table against the runs of its part.

    Args:
        published: What is published.
        declaration: The study.
        part: The part.
        table: The name of the table, of its goal and of its price.
        row: The row.
        runs: The rows of the runs.
        broken: Why runs broke.
    """
    name, goal, price = table
    paid = runs if runs.is_empty() else run_costs(runs, declaration.goals[goal], declaration.prices[price])
    if broken or paid.is_empty():
        return Held(name, part, DIFFERS, row, None, 0, next(iter(broken), "nothing is measured"))
    facts, each = costs(paid).row(0, named=True), paid["cost"].to_numpy()
    now = {key: float(facts[key]) for key in NUMBERS}
    return Held(name, part, verdict(row, now, each, published.exact), row, now, each.size)
