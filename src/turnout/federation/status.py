"""The status of a run that a server serves: a file in the folder of the results, which the server writes again and again."""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from turnout.core.errors import UserError
from turnout.engines.flower.greeting import Members, MemberStatus
from turnout.experiment.experiment import Experiment
from turnout.experiment.privacy_accounting import privacy_spent
from turnout.experiment.results import SUMMARY
from turnout.experiment.run import Watch
from turnout.io.atomic import make_folder, write
from turnout.runs.session import Session

FILE = "status.json"

WRITE_EVERY, ACCOUNT_EVERY = 1.0, 30.0
"""Least seconds between two writes, and between two calculations of epsilon."""


@dataclass
class Status:
    """The status of a run.

    Args:
        name: Name of the configuration.
        rounds: Number of rounds of the run.
        state: What the server does.
        why: What it waits for, or why it has stopped.
        written: When this was written.
        round: Rounds so far.
        members: The clients by number.
        hubs: The hubs by number, whose rows are clients, and whose refused and unusable replies are those of rounds they play.
        unusable_replies: Number of replies that could not be used, by reason.
        bytes_down: Bytes of the messages to clients.
        bytes_up: Bytes of their replies.
        epsilon: Privacy spent, if that is configured.
        delta: The delta for this epsilon.
    """

    name: str
    rounds: int
    state: Literal["waiting", "running", "finished", "stopped"] = "waiting"
    why: str = ""
    written: datetime = field(default_factory=lambda: datetime.now(UTC))
    round: int = 0
    members: list[MemberStatus] = field(default_factory=list)
    hubs: list[MemberStatus] = field(default_factory=list)
    unusable_replies: dict[str, int] = field(default_factory=dict)
    bytes_down: int = 0
    bytes_up: int = 0
    epsilon: float | None = None
    delta: float | None = None


STATUS = TypeAdapter(Status)


class StatusFile:
    """Writes the status of a run of `experiment` to its `folder`, unless that has a finished run; the end is written at the exit.

    Args:
        folder: Folder of the results.
        experiment: The configuration.
    """

    def __init__(self, folder: Path, experiment: Experiment):
        self.path, self.experiment = folder / FILE, experiment
        self.session: Session | None = None
        self.status, self.finished = Status(experiment.name, experiment.run.rounds), (folder / SUMMARY).exists()
        self.members: Members | None = None
        self._next, self._next_account = 0.0, 0.0

    def __enter__(self) -> "StatusFile":
        if not self.finished:
            make_folder(self.path.parent)
            self._write("waiting", "waiting for the SuperLink")
        return self

    def __exit__(self, kind, error, trace) -> None:
        self._next = self._next_account = 0.0
        if kind is None:
            self._write("finished", "")
        else:
            self._write("stopped", str(error) if isinstance(error, UserError) else kind.__name__)

    def waits(self, members: Members, sentence: str) -> None:
        """Write that the server waits.

        Args:
            members: The clients.
            sentence: For what it waits.
        """
        self.members = members
        self._write("waiting", sentence)

    def after(self, watch: Watch, members: Members) -> Watch:
        """Return the function that calls `watch` with the session, and writes the status.

        Args:
            watch: A function of the session.
            members: The clients.
        """
        self.members = members

        def both(session: Session) -> None:
            watch(session)
            self.session = session
            if time.monotonic() >= self._next:
                members.look()
            self._write("running", "")

        return both

    def _write(self, state: Literal["waiting", "running", "finished", "stopped"], why: str) -> None:
        """Write the status, if it is time, or the state is another one."""
        now = time.monotonic()
        if self.finished or (now < self._next and state == self.status.state):
            return
        self._next = now + WRITE_EVERY
        self.status.state, self.status.why, self.status.written = state, why, datetime.now(UTC)
        if self.members is not None:
            self._add_members(self.members)
        if self.session is not None:
            self._add_run(self.session, now)
        write(self.path, STATUS.dump_json(self.status, indent=2), private=True)

    def _add_members(self, members: Members) -> None:
        self.status.members, self.status.hubs = members.statuses(), members.of_hubs()
        self.status.unusable_replies = {reason: count for reason, count in members.mailbox.counts.items() if count}

    def _add_run(self, session: Session, now: float) -> None:
        self.status.round = int(session.round)
        if len(session.trace):
            totals = session.trace.ledger.totals()
            self.status.bytes_down, self.status.bytes_up = int(totals["bytes_down"]), int(totals["bytes_up"])
        if self.experiment.privacy is not None and now >= self._next_account:
            spent = privacy_spent(self.experiment.privacy, session)
            self.status.epsilon, self.status.delta = spent["epsilon"], spent["delta"]
            self._next_account = now + ACCOUNT_EVERY


def read_status(folder: Path) -> Status:
    """Return the status of the run in `folder`; `UserError` if no server has written one there."""
    try:
        return STATUS.validate_json((folder / FILE).read_bytes())
    except OSError:
        raise UserError(f"{folder} holds no run of a server: give the --out of turnout serve or turnout deploy") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{folder / FILE} is not as a server writes it ({where}: {first['msg']})") from None
