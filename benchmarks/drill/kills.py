"""Runs whose processes are killed with -9 at random moments within their exchanges."""

import signal
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.drill.cases import Case, differences
from benchmarks.drill.server import END
from turnout.federation.local import Federation
from turnout.federation.local_hubs import HubFederation

KINDS = ("node", "server", "superlink")
HUB_KINDS = (*KINDS, "hub")
DEADLINE = 10.0
"""Seconds that clients have for an exchange."""

LULL = 40
"""The most steps on the wire between two kills: a letter, a reply or a part of one that the SuperLink took or gave."""

LOOK = 0.03
"""Seconds between two looks at the wire."""

SETTLED = 10.0
"""Seconds within which a process that was started again is not killed."""

LIMIT = 900.0
"""Seconds after the last kill at which a run counts as one that does not end."""

TOGETHER = 0.5
"""How often a process is killed together with the one before."""


@dataclass
class Played:
    """What became of one run: the processes killed by kind, those that ended by themselves by kind and exit code, and what
    differs by how much."""

    case: Case
    kills: Counter = field(default_factory=Counter)
    fell: Counter = field(default_factory=Counter)
    seconds: float = 0.0
    ended: bool = False
    differences: dict[str, float] = field(default_factory=dict)

    @property
    def worst(self) -> float:
        """The largest difference; infinite where the run did not end."""
        return max(self.differences.values(), default=0.0) if self.ended else float("inf")


class Run:
    """One run over a federation whose SuperLink is there and whose nodes are not."""

    def __init__(self, federation: Federation, case: Case, folder: Path, generator: np.random.Generator):
        self.federation, self.out, self.generator = federation, folder / "out", generator
        self.played, self._steps, self._seen = Played(case), 0, 0.0
        self._born: dict[str, float] = {}
        folder.mkdir()
        federation.file = folder / "case.toml"
        federation.file.write_text(case.to_toml())

    def play(self, kills: list[str]) -> Played:
        """Play to the end, and kill on the way as many of `kills` as there is time for."""
        began = last = time.monotonic()
        left = list(kills)
        members = self.federation.start_members()
        server = self.federation.server
        secret, paths = self.federation.folder / "secret", (self.federation.file, self.out)
        self.federation.run("server", "benchmarks.drill.server", server.address, server.authority, secret, *paths, DEADLINE)
        self._steps = self._lull()
        while not self.played.ended and time.monotonic() < last + LIMIT:
            self.played.ended = self.federation.children["server"].poll() == 0
            if not self.played.ended:
                self._look()
                if left and self._steps <= 0 and self._kill(left[0]):
                    del left[0]
                    last = time.monotonic()
                    self._steps = 0 if self.generator.random() < TOGETHER else self._lull()
                time.sleep(LOOK)
        self.federation.stop([*members, "server"])
        self.played.seconds = time.monotonic() - began
        if self.played.ended:
            self.played.differences = differences(self.federation.file, self.out / END, self.federation.states)
        return self.played

    def _look(self) -> None:
        """Count down with the steps on the wire, and start again what ended."""
        steps = traffic(self.federation.folder / "superlink.db")
        if steps != self._seen:
            self._steps, self._seen = self._steps - 1, steps
        for name, code in self.federation.restart_ended().items():
            self._born[name] = time.monotonic()
            if code != -signal.SIGKILL:
                self.played.fell[f"{kind_of(name)} {code}"] += 1

    def _kill(self, kind: str) -> bool:
        """Kill a process of this kind, if one lives and is not just coming back."""
        settled = time.monotonic() - SETTLED
        children = self.federation.children.items()
        alive = [
            name
            for name, child in children
            if kind_of(name) == kind and child.poll() is None and self._born.get(name, 0.0) < settled
        ]
        if alive:
            self.federation.children[str(self.generator.choice(alive))].kill()
            self.played.kills[kind] += 1
        return bool(alive)

    def _lull(self) -> int:
        """Draw how many steps go by until the next kill."""
        return int(self.generator.integers(1, LULL + 1))


def kind_of(name: str) -> str:
    """Return the kind of the process `name`, of one node or several."""
    return name.partition("-")[0].removesuffix("s")


def traffic(database: Path) -> int:
    """Return the bytes that nodes sent and got so far, by the SuperLink's own books."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as books:
        return books.execute("SELECT TOTAL(bytes_sent + bytes_recv) FROM run").fetchone()[0]


def drill(folder: Path, cases: list[Case], kills: list[str], generator: np.random.Generator, share: int):
    """Play `cases` in turn, at most `share` kills a run, until all of `kills` are done; yield what became of each run."""
    place, clients, hubs = (folder / "federation", folder / "none.toml"), cases[0].clients, cases[0].hubs
    of = [(i * hubs // clients,) for i in range(clients)]
    federation = HubFederation(*place, of, None) if hubs else Federation(*place, clients, None)
    try:
        federation.start_registered_superlink()
        done = 0
        for number in range(10 * len(kills)):
            if done >= len(kills):
                break
            run = Run(federation, cases[number % len(cases)], folder / f"run-{number}", generator)
            played = run.play(kills[done : done + share])
            done += sum(played.kills.values())
            yield played
    finally:
        federation.stop()
