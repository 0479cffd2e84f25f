"""Runs in TensorBoard."""

from itertools import count
from pathlib import Path

from turnout.core.extras import extra
from turnout.runs.callbacks import Callback
from turnout.runs.trackers.facts import end_of, parameters


class TensorBoard(Callback):
    """Writes parameters, metrics and events of a run as event files of TensorBoard; the step is the round.

    Args:
        folder: Folder of the runs, each of which has a new folder in it, with the run's label, and a number where that is taken.

    Examples:
        >>> import turnout as t
        >>> t.trackers.TensorBoard("events").folder.name
        'events'
    """

    def __init__(self, folder: Path | str = "runs"):
        self.folder = Path(folder)

    def on_start(self, session):
        self._writer = extra("tensorboardX", "the tracker", "trackers").SummaryWriter(str(_new(self.folder, session.label)))
        table = "\n".join(f"| {name} | {value} |" for name, value in parameters(session).items())
        self._writer.add_text("parameters", f"| name | value |\n| --- | --- |\n{table}")

    def on_rows(self, session, rows):
        for row in rows.iter_rows(named=True):
            step = row.pop("round")
            for name, value in row.items():
                self._writer.add_scalar(f"{'metrics' if name in session.metrics else 'events'}/{name}", value, step)

    def on_end(self, session):
        self._writer.add_text("end", end_of(session))
        self._writer.close()


def _new(folder: Path, label: str) -> Path:
    """Make a new folder for a run within `folder`, and return it: a second run would overwrite the first one's events."""
    names = (label if number == 1 else f"{label}-{number}" for number in count(1))
    return next(folder / name for name in names if _made(folder / name))


def _made(folder: Path) -> bool:
    """Make a folder, and return whether it is new."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return False
    return True
