"""Groups of a model's leaves: which are shared, which stay with a client or as they are, and which have adapters."""

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
    * "within" it: once with each gradient that the local method computes, at the same point (FedPer; Arivazhagan et al., 2019);
    * "after" the run: local methods see the first h_i, and the model of client i, which metrics are of, has h_i after `steps`
      steps at the last parameters, on the client's training rows (FedBABU; Oh et al., 2022).

    Args:
        leaves: Names of the leaves, or patterns.
        lr: Step size, > 0.
        steps: Steps before a local method, or after the run.
        batch: Rows of each of these steps, drawn uniformly with replacement; None for all rows.
        trained: "before" the local method, "within" it, or "after" the run.
        new: Steps that a client which never took part makes before it is evaluated, from the first parameters on.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=10).split(data), model="perceptron", hidden=16)
        >>> personal = t.Grouped.of(problem, t.Personal("layers.output", lr=0.1))
        >>> trace = t.run(t.FedAvg(t.Nice(5), lr=0.1), personal, rounds=4)
        >>> trace.ledger.totals()["bytes_up"] == 4 * 5 * 4 * (64 * 16 + 16)
        True
    """

    leaves: Patterns = static()
    lr: Positive
    steps: Count = 5
    batch: Count | None = static(default=None)
    trained: Literal["before", "within", "after"] = static(default="before")
    new: Index = 0

    def __post_init__(self):
        names_as_tuple(self)
        if self.trained == "after" and isinstance(self.new, int) and self.new != 0:
            raise UserError("personal leaves that are trained after the run make `steps` steps at new clients too: leave new out")


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


@record
class Adapter:
    """Matrices W [outputs, inputs] that stay as they are and get low-rank adapters: the model uses W + (alpha / r) B A.

    A [r, inputs] and B [outputs, r] are trained and sent in the place of W (LoRA; Hu et al., 2022). A is drawn from
    U[-1/sqrt(inputs), 1/sqrt(inputs)], and B = 0. They are the leaves NAME.lora_A and NAME.lora_B of the run, `problem.merged(x)`
    returns the model with W + (alpha / r) B A, and `Frozen("*")` beside an adapter freezes all leaves but these.

    * "both" trains and sends A and B (FedIT; Zhang et al., 2024). The mean of products B_i A_i is not the product of their means:
      `averaging_bias` measures the difference.
    * "B" leaves A as it is (FFA-LoRA; Sun et al., 2024): the mean of B_i A is the product of the mean of B_i and A, exactly.
    * "alternating" trains B in odd rounds and A in even ones, and sends back what it trains (RoLoRA; Chen et al., 2025), by an
      algorithm without a state beside its parameters: the means are exact too.
    * "stacked" begins each round with a new A and B = 0, and the server adds the mean of the products B_i A_i to W, exactly
      (FLoRA; Wang et al., 2024), by `FedAvg`. Replies are A and B, but messages have W too.
    * "svd" trains both, by `FedAvg`, and the server takes B = U_r S_r and A = V_r^T of the mean of the products, U S V^T, which
      gives the nearest matrix of rank r (FlexLoRA; Bai et al., 2024).

    With `ranks`, client i has the first r_i rows of A and columns of B: its function is F_i(P_i x), where P_i sets the others to
    zero. In x <- x + sum_i w_i (y_i - x) replies are padded with zeros: a client leaves a row that it does not have as it is.
    HetLoRA (Cho et al., 2024) pads y_i, whose mean draws such a row to zero; so does "svd", with products of rank r_i.

    Args:
        leaves: Names of matrices and of kernels [outputs, inputs, h, w], taken as [outputs, inputs h w], or patterns, of which
            other leaves are left out.
        rank: r, at most the number of rows and of columns.
        alpha: Weight of the adapters, > 0; None for r.
        trained: "both", "B" alone, or one after the other, "alternating", or from zero in each round, "stacked", or from the
            singular values of the mean of products, "svd".
        inputs_first: Whether leaves of two axes are [inputs, outputs], as those of `Network`, and not as in PyTorch.
        ranks: r_i of each client, at most r; None: all have r.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=10).split(data), model="perceptron", hidden=16)
        >>> adapter = t.Adapter("layers.hidden.weight", rank=2, inputs_first=True)
        >>> trace = t.run(t.FedAvg(t.Nice(5), lr=0.1), t.Grouped.of(problem, adapter, t.Frozen("*")), rounds=2)
        >>> trace.ledger.totals()["bytes_up"] == 2 * 5 * 4 * 2 * (64 + 16)
        True
    """

    leaves: Patterns = static()
    rank: Count = static()
    alpha: Positive | None = static(default=None)
    trained: Literal["both", "B", "alternating", "stacked", "svd"] = static(default="both")
    inputs_first: bool = static(default=False)
    ranks: list[Count] | tuple[Count, ...] | None = static(default=None)

    def __post_init__(self):
        names_as_tuple(self)
        if self.ranks is not None:
            object.__setattr__(self, "ranks", tuple(self.ranks))
            if max(self.ranks, default=0) > self.rank:
                raise UserError(f"a client of Adapter.ranks has the rank {max(self.ranks)}, above rank = {self.rank}: raise rank")


Group = Personal | Frozen | Adapter


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


def assigned(
    names: Iterable[str],
    statistics: Iterable[str],
    groups: Iterable[Group],
    fixed: Iterable[str] = (),
    moved: Iterable[str] = (),
) -> Assignment:
    """Return the group of each leaf.

    Args:
        names: Names of all leaves, those of adapters after the others.
        statistics: Names of those that training moves without a gradient.
        groups: The personal and the frozen group.
        fixed: Names of those that adapters freeze.
        moved: Names of those that move with their adapters, and are not frozen with the rest of a model.

    Raises:
        UserError: A pattern matches nothing, a leaf is in two groups, or no leaf is left to the algorithm.
    """
    names, of = tuple(names), dict.fromkeys(fixed, "Frozen")
    for group in groups:
        what = type(group).__name__
        for pattern in group.leaves:
            found = [name for name in names if matches(name, pattern)]
            # Leaves of adapters are named only as such, so that "*" means those of the model.
            found = [name for name in found if not is_adapter(name)] or found
            if not found:
                raise UserError(f"{what} {pattern!r} is no part of the model, which has {shown(names)}: name one of these")
            for name in found:
                if what == "Frozen" and name in moved:
                    continue
                if name in moved:
                    raise UserError(f"{name} is both in an Adapter and {what}: give each leaf one group")
                if of.setdefault(name, what) != what:
                    other = "in an Adapter" if name in fixed else of[name]
                    raise UserError(f"{name} is both {other} and {what}: give each leaf one group")
    statistics = tuple(name for name in names if name in {*statistics})
    rest = {group: tuple(name for name in names if of.get(name) == group) for group in ("Personal", "Frozen")}
    shared = tuple(name for name in names if name not in of and name not in statistics)
    if not shared:
        raise UserError("the groups leave no parameter that is shared, so that there is nothing to train together: name fewer")
    return Assignment(names, shared, rest["Personal"], rest["Frozen"], statistics)


def is_adapter(name: str) -> bool:
    """Return whether a leaf is A or B of an adapter, by its name."""
    return name.endswith((".lora_A", ".lora_B"))


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
