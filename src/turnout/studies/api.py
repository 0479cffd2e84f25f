"""Studies from Python."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.core.timing import part
from turnout.io.claims import claimed
from turnout.problems.base import Problem
from turnout.report.vega import script_ahead
from turnout.runs.own_metrics import Metric
from turnout.studies.budget import Budget
from turnout.studies.cases import Cases
from turnout.studies.conduct import Watch, conduct
from turnout.studies.configurations import read_sources
from turnout.studies.progress import shown
from turnout.studies.reader import DeclarationReader
from turnout.studies.sources import Source
from turnout.studies.study import Study


def study(
    what: str | Path | list | Mapping[str, Any] | Source,
    out: str | Path | None = None,
    *,
    problems: list[str] | None = None,
    methods: list[str] | None = None,
    seeds: int | None = None,
    workers: int = 1,
    executor: str | None = None,
    job: Mapping[str, Any] | None = None,
    budget: tuple[str, float] | None = None,
    data: str | Path | None = None,
    watch: Watch | None = None,
    command: str = "turnout.study",
) -> Study:
    """Play a study: every method on its problems, in every setting of its grid, with every seed.

    Runs that are in `out` already are not played again.

    Raises:
        UserError: If anything in the declaration is wrong; nothing has been played then.

    Args:
        what: A TOML file, the folder of a study, a list of configurations, or tables as in TOML, in which a problem, a method, an
            algorithm or a part may be a Python object.
        out: The folder for runs and tables; default: none are kept.
        problems: Names of the problems that are played; default: all.
        methods: Names of the methods that play; default: all.
        seeds: The most reported seeds of each setting, the first ones; default: all.
        workers: Processes that play side by side, each on its share of the cores; with an executor, the most jobs at a time.
        executor: "slurm" for jobs of a Slurm cluster that sees the same files, "local" for those of this machine.
        job: Parameters of submitit for each job, such as {"timeout_min": 30, "slurm_partition": "cpu"}.
        budget: The name of a price and a number of it, such as ("bytes", 1e9): when the runs so far have spent it, no further one
            starts. Runs are then played one by one, the first seed of all settings before the second.
        data: The folder with data files.
        watch: Called with the progress as the study goes on; default: bars in terminals, and in notebooks
            that have ipywidgets.
        command: What the summary says about how the study was started.

    Examples:
        >>> import turnout as t
        >>> played = t.study({
        ...     "seeds": 5,
        ...     "run": {"rounds": 10},
        ...     "problems": {"made": t.Quadratic.random(12, 5)},
        ...     "methods": {"gd": t.Gd(t.Full(), lr=0.1), "half": t.MbGd(t.Nice(6), lr=0.05)},
        ...     "goals": {"near": {"metric": "gradient", "share": 0.5}},
        ... })
        >>> played.costs().select("method", "reached", "seeds").rows()
        [('gd', 5, 5), ('half', 5, 5)]
        >>> played.winner("made")
        'gd'
    """
    if not isinstance(workers, int) or workers < 1:
        raise UserError(f"workers is a number of processes of at least 1, but it is {workers!r}: give workers=2, for instance")
    jobs = _jobs(executor, job)
    cases = Cases(None if data is None else Path(data))
    declaration = DeclarationReader(_source(what)).declaration().part(problems, methods, seeds)
    limit = None if budget is None else Budget.of(budget, declaration)
    if limit is not None and jobs is not None:
        raise UserError("a budget is for runs that this process starts one by one: leave out the executor, or the budget")
    if out is not None:
        script_ahead()
    temporary = TemporaryDirectory(prefix="turnout-") if out is None else nullcontext(out)
    with temporary as folder, claimed(Path(folder)) as folder:
        with nullcontext(watch) if watch else shown() as watching:
            rows, broken = conduct(declaration, folder, cases, workers, watching, jobs, limit)
        played = Study(declaration, rows, tuple(broken.values()), cases, limit)
        if out is not None:
            with part("report"):
                played.write(folder, command)
    return played


def from_tables(tables: Mapping[str, Any]) -> Source:
    """Return tables given in Python as the source of a study: an algorithm alone is a method, a problem alone a problem."""
    _refuse_metrics(tables)
    methods, problems = tables.get("methods", {}), tables.get("problems", {})
    if isinstance(methods, Mapping):
        methods = {name: {"algorithm": one} if isinstance(one, Algorithm) else one for name, one in methods.items()}
    if isinstance(problems, Mapping):
        problems = {name: {"problem": one} if isinstance(one, Problem) else one for name, one in problems.items()}
    return Source({**tables, "methods": methods, "problems": problems})


def _refuse_metrics(tables: Mapping[str, Any]) -> None:
    """Raise `UserError` for a metric of one's own that is an object, which other processes do not find."""
    goals = tables.get("goals")
    for table in (tables.get("run"), *(goals.values() if isinstance(goals, Mapping) else ())):
        for metric in [table.get("metric"), *(table.get("metrics") or ())] if isinstance(table, Mapping) else []:
            if isinstance(metric, Metric) or callable(metric):
                what = getattr(metric, "name", None) or getattr(metric, "__name__", metric)
                raise UserError(f"metric {what!r} is an object: in a study write 'file.py:NAME' or 'module:NAME' of it")


def _jobs(executor: str | None, job: Mapping[str, Any] | None):
    """Return how programs become jobs; None where they are played without."""
    if executor is None:
        if job:
            raise UserError(f"job = {dict(job)!r} is about jobs of an executor: give executor='slurm' or 'local' too")
        return None
    if executor not in ("slurm", "local"):
        raise UserError(f"unknown executor {executor!r}: known are 'slurm' and 'local'")
    try:
        from turnout.studies.jobs import Jobs
    except ModuleNotFoundError as error:
        raise UserError(f"an executor needs submitit ({error}): pip install 'turnout[cluster]'") from None
    return Jobs(executor, dict(job or {}))


def _source(what: str | Path | list | Mapping[str, Any] | Source) -> Source:
    """Return the source of a study."""
    if isinstance(what, Source):
        return what
    return from_tables(what) if isinstance(what, Mapping) else read_sources(_paths(what))


def _paths(what: str | Path | list) -> list[Path]:
    """Return the paths of a study; `UserError` if there are none."""
    paths = [Path(path) for path in (what if isinstance(what, list | tuple) else [what])]
    if not paths:
        raise UserError("a study needs something to play: give a TOML file, a folder, or tables")
    return paths
