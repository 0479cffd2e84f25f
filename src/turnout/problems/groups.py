"""Groups of a model's leaves: which are shared, and which stay with a client or stay as they are."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from turnout.core.errors import UserError
from turnout.core.records import Count, Index, Positive, record, static

Patterns = str | list[str] | tuple[str, ...]
"""Names of leaves, or patterns of names such as "head.*"; the name of a part stands for all its leaves."""


@record
class Personal:
    """Leaves that each client has for itself: they are trained at the client, kept there and never sent.

    With h_i = the leaves of client i the objective is f_i(x) = F_i(x, h_i), and h_i <- h_i - lr grad_h F_i(x, h_i)

    * "before" the local method, `steps` times at the parameters x that the client was sent (FedRep; Collins et al., 2021): for
      h_i = argmin F_i(x, .) the local method then sees the gradient of min_h F_i(x, h);
    * "within" it: once with each gradient that the local method computes, at the same point (FedPer; Arivazhagan et al., 2019).

    Args:
        leaves: Names of the leaves, or patterns.
        lr: Step size, > 0.
        steps: Steps before a local method.
        batch: Rows of each of these steps, drawn uniformly with replacement; None for all rows.
        trained: "before" the local method, or "within" it.
        new: Steps that a client which never took part makes before it is evaluated, from the first parameters on.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=10).split(data), model="perceptron", hidden=16)
        >>> personal = t.Grouped.of(problem, t.Personal("layers.output", lr=0.1))
        >>> trace = t.run(t.FedAvg(t.Nice(5), lr=0.1), personal, rounds=2)
        >>> trace.ledger.totals()["bytes_up"] == 2 * 5 * 4 * (64 * 16 + 16)
        True
    """

    leaves: Patterns = static()
    lr: Positive
    steps: Count = 5
    batch: Count | None = static(default=None)
    trained: Literal["before", "within"] = static(default="before")
    new: Index = 0

    def __post_init__(self):
        names_as_tuple(self)


@record
class Frozen:
    """Leaves that stay as they are at the start: they are neither trained nor sent.

    Args:
        leaves: Names of the leaves, or patterns.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=10).split(data), model="perceptron", hidden=16)
        >>> trace = t.run(t.FedAvg(t.Nice(5), lr=0.1), t.Grouped.of(problem, t.Frozen("layers.hidden")), rounds=2)
        >>> trace.ledger.totals()["bytes_up"] == 2 * 5 * 4 * (16 * 10 + 10)
        True
    """

    leaves: Patterns = static()

    def __post_init__(self):
        names_as_tuple(self)


Group = Personal | Frozen


class Assignment(NamedTuple):
    """The group of each leaf.

    Args:
        leaves: Names of all leaves, in the order of the model's tree.
        shared: Names of those that the algorithm sees.
        personal: Names of those that clients have for themselves.
        frozen: Names of those that stay as they are.
        statistics: Names of those that training moves without a gradient; they are shared, or else also among the others.
    """

    leaves: tuple[str, ...]
    shared: tuple[str, ...]
    personal: tuple[str, ...]
    frozen: tuple[str, ...]
    statistics: tuple[str, ...]

    @property
    def averaged(self) -> tuple[str, ...]:
        """Names of the statistics that the server averages."""
        return tuple(name for name in self.statistics if name not in (*self.personal, *self.frozen))

    @property
    def moved(self) -> tuple[str, ...]:
        """Names of the statistics that training moves at a client: its own ones, and those that the server averages."""
        return tuple(name for name in self.statistics if name not in self.frozen)

    @property
    def own(self) -> tuple[str, ...]:
        """Names of the personal leaves that gradient steps train."""
        return tuple(name for name in self.personal if name not in self.statistics)


def assigned(names: Iterable[str], statistics: Iterable[str], groups: Iterable[Group]) -> Assignment:
    """Return the group of each leaf.

    Args:
        names: Names of all leaves.
        statistics: Names of those that training moves without a gradient.
        groups: The groups.

    Raises:
        UserError: A pattern matches nothing, a leaf is in two groups, or no leaf is left to the algorithm.
    """
    names, of = tuple(names), dict[str, str]()
    for group in groups:
        what = type(group).__name__
        for pattern in group.leaves:
            found = [name for name in names if matches(name, pattern)]
            if not found:
                raise UserError(f"{what} {pattern!r} is no part of the model, which has {shown(names)}: name one of these")
            for name in found:
                if of.setdefault(name, what) != what:
                    raise UserError(f"{name} is both {of[name]} and {what}: give each leaf one group")
    statistics = tuple(name for name in names if name in {*statistics})
    rest = {group: tuple(name for name in names if of.get(name) == group) for group in ("Personal", "Frozen")}
    shared = tuple(name for name in names if name not in of and name not in statistics)
    if not shared:
        raise UserError("the groups leave no parameter that is shared, so that there is nothing to train together: name fewer")
    return Assignment(names, shared, rest["Personal"], rest["Frozen"], statistics)


def matches(name: str, pattern: str) -> bool:
    """Return whether a leaf, or a part that it belongs to, is called as a pattern says.

    Args:
        name: Name of the leaf, such as "head.weight".
        pattern: A name or a pattern, such as "head" or "*.bias".
    """
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def shown(names: Iterable[str], most: int = 8) -> str:
    """Return names in words, the first ones of many."""
    names = [*names]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def names_as_tuple(record: Any) -> None:
    """Make the field `leaves` of a record a tuple, which is hashable.

    Args:
        record: A record with this field.
    """
    leaves = record.leaves
    object.__setattr__(record, "leaves", (leaves,) if isinstance(leaves, str) else tuple(leaves))
