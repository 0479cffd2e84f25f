"""The progress of a study, shown in terminals, and in notebooks that have ipywidgets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from turnout.studies.conduct import Progress, Watch


@contextmanager
def shown(check: Callable[[], None] = lambda: None) -> Iterator[Watch]:
    """Yield a function that shows runs, rounds, rounds a second and the time left; elsewhere it shows nothing.

    Args:
        check: Called before each change; may raise to interrupt the study.
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.fields[runs]} runs"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} rounds"),
        TextColumn("{task.fields[pace]}"),
        TimeRemainingColumn(),
    )
    # In a notebook rich draws bars by ipywidgets, and warns where that is absent.
    hidden = find_spec("ipywidgets") is None if console.is_jupyter else not console.is_terminal
    with Bars(*columns, console=console, disable=hidden, transient=True) as bars:
        tasks = []

        def watch(now: Progress) -> None:
            check()
            runs = f"{now.runs:,}/{now.all_runs:,}"
            if not tasks:
                tasks.append(bars.add_task("", total=now.all_rounds, completed=now.rounds, runs=runs, pace=""))
            speed = bars.tasks[0].speed
            pace = f"{speed:,.0f}/s" if speed else ""
            bars.update(tasks[0], total=now.all_rounds, completed=now.rounds, runs=runs, pace=pace)

        yield watch
