"""Published results that are played again, as many of their rows as the time allows."""

import math
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean

from turnout.studies.declaration import Declaration
from turnout.studies.published import Part, Published, asked, tables_of
from turnout.studies.replay import MEASURED, Held, Outcome, whole

SHARES = 1 / 40, 1 / 8
"""The shares of the time that each result has for first rows: a small one before, so that dear rows keep no others away."""

LEAST = 10.0
"""The least seconds of such a share, since a process begins in them."""

TIMES = 10.0
"""How many times as long as others a further row may take."""


class Replay:
    """One published result, and what is found of it.

    Args:
        folder: Its folder.
        published: What is published.
        declaration: The study, as it is declared now.
        rng: Chooses the order of the rows.
        problems: The problems that are played; None for all.
        methods: The methods that are played; None for all.
    """

    def __init__(
        self,
        folder: Path,
        published: Published,
        declaration: Declaration,
        rng: random.Random,
        problems: list[str] | None = None,
        methods: list[str] | None = None,
    ):
        self.folder, self.published, self.whole = folder, published, whole(declaration)
        self.asked = asked(published, declaration)
        self.tables = {
            part: {table for table, *_ in tables}
            for part, tables in tables_of(published, declaration).items()
            if (problems is None or part[0] in problems) and (methods is None or part[1] in methods)
        }
        self.waiting = rng.sample([*self.tables], len(self.tables))
        self.held: list[Held] = []
        self.reasons: dict[Part, str] = {}
        self.late: dict[Part, float] = {}
        self.seconds: list[float] = []

    @property
    def typical(self) -> float:
        """The seconds that a part took so far, in the mean; 0 before the first."""
        return fmean(self.seconds) if self.seconds else 0.0

    def unseen(self, parts: Iterable[Part]) -> list[Part]:
        """Return those of `parts` that are in a table of which no row was played."""
        seen = {one.table for one in self.held}
        return [part for part in parts if not seen >= self.tables[part]]

    def partly_played(self) -> list[Part]:
        """Return the parts of which not all seeds were played."""
        return [*dict.fromkeys(one.part for one in self.held if one.now and one.seeds < one.published["seeds"])]

    def again(self, seconds: float) -> None:
        """Let parts wait again that may be over in so many seconds."""
        parts = [part for part, needed in self.late.items() if not self.whole or not seconds < needed < math.inf]
        self.waiting = [*parts, *self.waiting]

    def note(self, part: Part, outcome: Outcome, seconds: float) -> None:
        """Note what came of a part in so many seconds."""
        self.waiting = [other for other in self.waiting if other != part]
        if outcome.held:
            self.held = [*(one for one in self.held if one.part != part), *outcome.held]
        if outcome.reason:
            self.reasons[part] = outcome.reason
            return
        self.late.pop(part, None)
        if outcome.needed is None:
            self.seconds.append(seconds)
        else:
            self.late[part] = outcome.needed


def replay(replays: list[Replay], seconds: float, rng: random.Random, hold: Callable[[Replay, Part, float], Outcome]) -> None:
    """Play rows again: first one of each table, then what took too long for that, further ones, and at last all seeds of each.

    Args:
        replays: The results.
        seconds: The time that there is.
        rng: Chooses the order.
        hold: Plays a part within the seconds that it is given.
    """
    end = time.monotonic() + seconds

    def left() -> float:
        return end - time.monotonic()

    def play(one: Replay, part: Part, given: float) -> None:
        began = time.monotonic()
        one.note(part, hold(one, part, given), time.monotonic() - began)

    order = rng.sample(replays, len(replays))
    for share in SHARES:
        given = max(LEAST, share * seconds)
        for one in order:
            one.again(given)
            until = min(end, time.monotonic() + given)
            while (parts := one.unseen(one.waiting)) and until - time.monotonic() > max(one.typical, MEASURED):
                play(one, parts[0], until - time.monotonic())
    late = [(needed, one, part) for one in order for part, needed in one.late.items()]
    for needed, one, part in sorted(late, key=lambda each: each[0]):
        hopeless = left() < one.typical or (one.whole and left() < needed < math.inf)
        if one.unseen([part]) and not hopeless:
            play(one, part, left())
    while ready := [one for one in order if one.waiting and left() > max(one.typical, MEASURED)]:
        one = rng.choice(ready)
        play(one, one.waiting[0], min(left(), TIMES * max(one.typical, MEASURED)))
    for one in order:
        for part in one.partly_played():
            if left() > max(one.typical, MEASURED):
                play(one, part, left())
