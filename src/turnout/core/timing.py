"""Where the seconds of a command go: a stopwatch for each part of the work."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import jax

PARTS = ("import", "data", "optimum", "compile", "rounds", "metrics", "report", "other")
"""The parts of a command; "other" is what no part counts."""

COMPILING = "/jax/core/compile/"
"""How JAX's events about tracing, lowering and compiling begin."""


class Timing:
    """Seconds of each part; a part within another is counted by itself alone, and so is compiling.

    Args:
        since: `time.perf_counter()` when the command began; what went by until now is "import".

    Attributes:
        seconds: The seconds of each part.
        last: Those of the part that ended last.
    """

    def __init__(self, since: float):
        self._began, now = since, time.perf_counter()
        self.seconds = {**dict.fromkeys(PARTS, 0.0), "import": now - since}
        self.last = 0.0
        self._open: list[str] = []
        self._last = now
        self._compiled: list[tuple[float, float]] = []

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the seconds inside as those of the part `name`; those since it began are `last` afterwards."""
        self._count()
        self._open.append(name)
        before = self.seconds[name]
        try:
            yield
        finally:
            self._count()
            self._open.pop()
            self.last = self.seconds[name] - before

    def move(self, source: str, to: str, seconds: float) -> None:
        """Count some seconds of one part as those of another.

        Args:
            source: The one.
            to: The other.
            seconds: How many at most.
        """
        seconds = min(seconds, self.seconds[source])
        self.seconds[source] -= seconds
        self.seconds[to] += seconds

    def add(self, seconds: Mapping[str, float]) -> None:
        """Add the seconds that another process took."""
        for name, taken in seconds.items():
            self.seconds[name] += taken

    def taken(self) -> dict[str, float]:
        """Return the seconds of each part so far."""
        self._count()
        return dict(self.seconds)

    def facts(self) -> dict[str, float]:
        """Return the seconds of all parts so far, and those since the command began as "total"."""
        return {**{name: round(taken, 3) for name, taken in self.taken().items()}, "total": round(self._last - self._began, 3)}

    def _count(self) -> None:
        """Add the seconds since the last change of parts to the part that is open."""
        now = time.perf_counter()
        compiled = sum(end - start for start, end in self._compiled)
        self._compiled.clear()
        self.seconds["compile"] += compiled
        self.seconds[self._open[-1] if self._open else "other"] += max(0.0, now - self._last - compiled)
        self._last = now

    def on_event(self, event: str, duration: float, **_) -> None:
        """Take note of what JAX compiled; what is traced within a trace is not counted twice."""
        if event.startswith(COMPILING):
            end = time.perf_counter()
            start = max(end - duration, self._last)
            while self._compiled and self._compiled[-1][0] >= start:
                self._compiled.pop()
            self._compiled.append((start, end))


_timings: list[Timing] = []
"""The stopwatch of this process, if it has one."""


def begin(since: float) -> Timing:
    """Return the stopwatch of this process, from now on.

    Args:
        since: `time.perf_counter()` when the command began.
    """
    if not _timings:
        jax.monitoring.register_event_duration_secs_listener(lambda *event, **facts: _timings[0].on_event(*event, **facts))
    _timings[:] = [Timing(since)]
    return _timings[0]


def timing() -> Timing | None:
    """Return the stopwatch of this process; None where nobody asked for one."""
    return _timings[0] if _timings else None


@contextmanager
def part(name: str) -> Iterator[None]:
    """Count the seconds inside as those of the part `name`, where somebody asked for it."""
    watch = timing()
    if watch is None:
        yield
        return
    with watch.part(name):
        yield
