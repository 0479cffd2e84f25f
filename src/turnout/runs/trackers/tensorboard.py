"""Runs in TensorBoard."""

from pathlib import Path

from turnout.runs.callbacks import Callback
from turnout.runs.trackers.facts import parameters, tracker


class TensorBoard(Callback):
    """Writes parameters, metrics and events of a run as event files of TensorBoard; the step is the round.

    Args:
        folder: Folder of the runs, each of which has a folder in it.

    Examples:
        >>> import turnout as t
        >>> t.trackers.TensorBoard("events").folder.name
        'events'
    """

    def __init__(self, folder: Path | str = "runs"):
        self.folder = Path(folder)

    def on_start(self, session):
        self._writer = tracker("tensorboardX").SummaryWriter(str(self.folder / session.label))
        table = "\n".join(f"| {name} | {value} |" for name, value in parameters(session).items())
        self._writer.add_text("parameters", f"| name | value |\n| --- | --- |\n{table}")

    def on_rows(self, session, rows):
        for row in rows.iter_rows(named=True):
            step = row.pop("round")
            for name, value in row.items():
                self._writer.add_scalar(f"{'metrics' if name in session.metrics else 'events'}/{name}", value, step)

    def on_end(self, session):
        self._writer.close()
