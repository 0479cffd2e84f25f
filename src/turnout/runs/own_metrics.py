"""Metrics of one's own, which are evaluated between rounds, at no cost in the ledger."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.accounting.target import is_own
from turnout.core.errors import UserError
from turnout.core.leaf_names import OwnLeaves, with_leaves
from turnout.core.named_class import named_object
from turnout.engines.metrics import NAMES
from turnout.problems.base import Problem
from turnout.problems.row_formats import plain

Of = Literal["parameters", "clients", "test", "held_out"]


@dataclass(frozen=True)
class Metric:
    """A metric of one's own: a function of the parameters, of each client's rows, or of the test or held-out rows.

    Targets, studies and callbacks take smaller for better, and for a name with "accuracy" larger: of an F1 score return 1 - F1.

    Args:
        name: Its name in traces, targets and studies.
        function: Of "parameters", a function of x that returns a number. Of "test" and "held_out", one of x, features and labels
            that returns a number. Of "clients", one of x and a client's features and labels that returns a number and its
            weight; the metric is the weighted mean. Arrays are NumPy's, sparse features SciPy's, classes the problem's numbers.
        of: What it is a function of.

    Raises:
        UserError: The name is that of a metric of turnout, or `of` is none of these.

    Examples:
        >>> import numpy as np, turnout as t
        >>> size = t.Metric("size", lambda x: np.abs(x).max())
        >>> trace = t.run(t.Gd(t.Full(), lr=0.1), t.Quadratic.random(3, 2), rounds=2, metrics=("value", size))
        >>> trace.frame.columns[:3]
        ['round', 'value', 'size']
    """

    name: str
    function: Callable
    of: Of = "parameters"

    def __post_init__(self):
        if self.name in NAMES or self.name in ("round", "counts"):
            raise UserError(f"metric {self.name!r} is one of turnout's: call yours by another name")
        if self.of not in ("parameters", "clients", "test", "held_out"):
            raise UserError(f"metric {self.name!r} is of {self.of!r}: say 'parameters', 'clients', 'test' or 'held_out'")

    def value(self, x: PyTree, problem: Problem, further: dict[str, Problem | None], own: OwnLeaves = None) -> float:
        """Return the metric at x.

        Args:
            x: Parameters.
            problem: The problem.
            further: The problems of "test" and "held_out" rows.
            own: Returns the personal leaves of a client by name; None where there are none.
        """
        x = jax.tree.map(np.asarray, x)
        if self.of == "parameters":
            return self._number(self.function(x))
        if self.of != "clients":
            return self._number(self.function(x, *rows_of(further[self.of])))
        models = (x if own is None else with_leaves(x, own(i)) for i in range(problem.clients))
        pairs = [self.function(model, *rows_of(problem, i)) for i, model in enumerate(models)]
        try:
            values, weights = np.array([(float(value), float(weight)) for value, weight in pairs]).T
        except (TypeError, ValueError):
            raise UserError(f"metric {self.name!r} returns {pairs[0]!r} of client 0: return a number and its weight") from None
        return float(np.average(values, weights=weights))

    def check(self, problem: Problem, further: dict[str, Problem | None]) -> None:
        """Raise `UserError` where there are no rows to evaluate it on.

        Args:
            problem: The problem.
            further: The problems of "test" and "held_out" rows.
        """
        part = {"parameters": None, "clients": problem}.get(self.of, further.get(self.of))
        if self.of in further and part is None:
            raise UserError(f"metric {self.name!r} needs {self.of.replace('_', '-')} rows: give {self.of}")
        if part is not None and (part.remote or not isinstance(part.rows, tuple) or len(part.rows) != 2):
            raise UserError(f"metric {self.name!r} needs features and labels, which {type(part).__name__} has not here")

    def _number(self, value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise UserError(f"metric {self.name!r} returns {value!r}: return a number") from None


def rows_of(problem: Any, client: int | None = None) -> tuple[Any, np.ndarray]:
    """Return features and labels of one client, or of all, as NumPy's or SciPy's.

    Args:
        problem: The problem.
        client: The number of the client; None for all.
    """
    first, last = (0, int(problem.offsets[-1])) if client is None else map(int, problem.offsets[client : client + 2])
    features, labels = problem.rows
    return plain(features, first, last), np.asarray(labels[first:last])


def own_metrics(metrics: Iterable | None, target: str | None = None) -> tuple[Metric, ...]:
    """Return the user's own metrics among `metrics`.

    Args:
        metrics: Names, metrics, and names "module:function"; None for the default ones.
        target: The name of the target's metric, if there is one, which may be "module:function" too.

    Raises:
        UserError: Two have the same name, or one is no function.
    """
    given = [*(metrics or ()), *([] if target is None else [target])]
    named = [each for each in given if isinstance(each, str) and is_own(each)]
    own = [each for each in given if isinstance(each, Metric)] + [imported(each) for each in dict.fromkeys(named)]
    if len({metric.name for metric in own}) < len(own):
        raise UserError("two metrics have the same name: call them by different names")
    return tuple(own)


def names_of_own(metrics: Iterable | None) -> set[str]:
    """Return the names of the user's own metrics among `metrics`, which are not imported.

    Args:
        metrics: Names, metrics, and names "module:function"; None for the default ones.
    """
    return {each.name if isinstance(each, Metric) else each for each in metrics or () if isinstance(each, Metric) or is_own(each)}


def imported(name: str) -> Metric:
    """Return the metric called "module:function" or "file.py:function": of the parameters if it takes x alone, else of clients.

    Args:
        name: The name.

    Raises:
        UserError: There is no such module, file or function.
    """
    found = named_object(name, Path.cwd())
    if isinstance(found, Metric):
        return Metric(name, found.function, found.of)
    if not callable(found):
        raise UserError(f"metric {name!r} is no function: name one of the parameters or of a client's rows, or a Metric")
    return Metric(name, found, "parameters" if len(inspect.signature(found).parameters) == 1 else "clients")
