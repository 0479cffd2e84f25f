"""The metrics that a run evaluates, and which have no meaning for it."""

from turnout.accounting.target import Target
from turnout.core.errors import UserError
from turnout.engines.metrics import ERRORS, HELD_OUT, NAMES, TEST, WHOLE
from turnout.problems.base import Problem
from turnout.runs.own_metrics import Metric, names_of_own


def wanted_metrics(
    problem: Problem, target: Target | None, metrics: tuple[str | Metric, ...] | list[str | Metric] | None, test=None,
    held_out=None, sampled: bool = False,
) -> tuple[str, ...]:  # fmt: skip
    """Return turnout's metrics that an engine evaluates, in the order of `metrics.NAMES`; `UserError` for one without meaning.

    Args:
        problem: The problem.
        target: The target, whose metric is included.
        metrics: What is asked for; None, or only metrics of one's own, for the default ones.
        test: Problem of the test set.
        held_out: Problem of the held-out clients.
        sampled: Whether f is evaluated on some of the clients only.
    """
    own = names_of_own([*(metrics or ()), *([target.metric] if target else [])])
    wanted = {each for each in metrics or () if isinstance(each, str)} - own
    if not wanted and (metrics is None or metrics):
        usual = ("value", *(["accuracy"] if problem.classifies else []), *(["perplexity"] if problem.has_perplexity else []))
        further = {"test": test, "held_out": held_out}
        wanted = {*usual, *(f"{where}_{name}" for where, rows in further.items() if rows is not None for name in usual)}
    wanted |= {target.metric} - own if target else set()
    if not wanted:
        raise UserError(f"a run needs at least one metric: choose among {', '.join(NAMES)}")
    unknown = wanted - set(NAMES)
    if unknown:
        raise UserError(f"unknown metric {min(unknown)!r}: known are {', '.join(NAMES)}")
    if wanted & {*TEST} and test is None:
        raise UserError(f"metric {min(wanted & {*TEST})!r} needs rows to test with: give a test problem, or [problem] test")
    if wanted & {*HELD_OUT} and held_out is None:
        raise UserError(f"metric {min(wanted & {*HELD_OUT})!r} needs clients that are held out: give [problem] held_out")
    if any("accuracy" in name for name in wanted) and not problem.classifies:
        raise UserError(f"{type(problem).__name__} does not classify, so it has no accuracy: take another metric")
    if any("perplexity" in name for name in wanted) and not problem.has_perplexity:
        raise UserError(f"{type(problem).__name__} is no language model, so it has no perplexity: take another metric")
    if sampled:
        refused = sorted(wanted & {*WHOLE})
        if refused:
            raise UserError(f"metric {refused[0]!r} needs all clients: leave evaluate out, or take 'value' or 'accuracy'")
        wanted |= {error for name, error in ERRORS.items() if name in wanted}
    elif wanted & {*ERRORS.values()}:
        raise UserError(
            f"metric {min(wanted & {*ERRORS.values()})!r} is that of a sample of clients: set evaluate, or leave it out"
        )
    return tuple(name for name in NAMES if name in wanted)
