"""Progress bars of long commands, on terminals only, and interruption by Ctrl-C."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from turnout.runs.session import Session

console = Console(stderr=True)

SAME = "the same command goes on with it"
"""How to go on with what keeps its own state."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed; raised between two chunks."""


@contextmanager
def deferred_interrupt(hint: str = "") -> Iterator:
    """Yield a function that raises `Interrupted` if Ctrl-C was pressed before the call; the `hint` says how to go on.

    An interrupt inside a compiled program could crash it. A second Ctrl-C stops the process at once.
    """
    pressed = []

    def record(number, frame):
        pressed.append(number)
        signal.signal(signal.SIGINT, previous)

    def check():
        if pressed:
            raise Interrupted(hint)

    previous = signal.signal(signal.SIGINT, record)
    try:
        yield check
    except KeyboardInterrupt as error:
        raise error if isinstance(error, Interrupted) else Interrupted(hint) from None
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def watching(hint: str) -> Iterator:
    """Yield a function that shows the progress of a session, and raises `Interrupted` with the `hint` after Ctrl-C."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds {task.fields[pace]}"),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    shown = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
    with deferred_interrupt(hint) as check, shown as progress:
        tasks = {}

        def watch(session: Session) -> None:
            check()
            label = session.trace.label
            if label not in tasks:
                tasks[label] = progress.add_task(label, total=session.rounds, pace="", state="compiling")
            task = progress.tasks[tasks[label]]
            pace = f"({task.speed:,.0f}/s)" if task.speed else ""
            progress.update(tasks[label], completed=session.round, pace=pace, state=_state(session))

        yield watch


@contextmanager
def studying() -> Iterator:
    """Yield a function that shows the progress of a study, and raises `Interrupted` after Ctrl-C."""
    from turnout.studies.progress import shown

    with deferred_interrupt(SAME) as check, shown(check) as watch:
        yield watch


@contextmanager
def planning() -> Iterator:
    """Yield a function that shows what a planner is doing, and raises `Interrupted` after Ctrl-C."""
    with spinning("building the problem", SAME) as say:
        yield lambda doing, runs: say(f"{runs:,} runs, {doing}")


@contextmanager
def spinning(first: str, hint: str) -> Iterator:
    """Yield a function that shows a text, and raises `Interrupted` with the `hint` after Ctrl-C; at first it is `first`."""
    shown = Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True)
    shown.disable = not console.is_terminal
    with deferred_interrupt(hint) as check, shown as progress:
        task = progress.add_task(first, total=None)

        def say(text: str) -> None:
            check()
            progress.update(task, description=text)

        yield say


def _state(session: Session) -> str:
    """Return the current value of the metric and the number of exchanges so far."""
    trace = session.trace
    if not len(trace):
        return "compiling"
    metric = trace.target.metric if trace.target else next(iter(trace.metrics))
    return f"{metric} {trace.metrics[metric]:.3g} after {trace.ledger.totals()['exchanges']:,} exchanges"
