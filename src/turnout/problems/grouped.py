"""`Grouped`: a problem of which an algorithm sees the shared leaves."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.core.records import record, static
from turnout.core.seeds import host_key
from turnout.problems.adapters.adapted import Adapted
from turnout.problems.base import Problem
from turnout.problems.groups import Adapter, Assignment, Group, Personal, assigned
from turnout.problems.oracles.grouped_oracle import at_points
from turnout.problems.row_sums import Point
from turnout.problems.wrapped import Wrapped, bare, parts_of

Leaves = dict[str, Any]
"""Arrays by the names of the leaves."""


@record
class Grouped(Wrapped):
    """A problem whose model has groups of leaves, of which an algorithm sees the shared ones; see `Grouped.of`.

    f(x) = sum_i lambda_i F_i(x, h_i, z, s), with the shared leaves x, the personal leaves h_i of client i, the frozen leaves z
    and the statistics s. Everything else is that of the problem inside, whose attributes are also those of this one.

    Args:
        rows: The data of all clients.
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        inner: The problem of the whole model, without its rows.
        personal: How personal leaves are trained; None where there are none.
        groups: The group of each leaf.
        structure: The structure of the whole model.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=10).split(data), model="perceptron", hidden=16)
        >>> heads = t.Grouped.of(problem, t.Personal("layers.output", lr=0.1))
        >>> trace = t.run(t.FedAvg(t.Nice(5), lr=0.1), heads, rounds=4)
        >>> trace.model(3).layers["output"]["bias"].shape
        (10,)
    """

    personal: Personal | None
    groups: Assignment = static()
    structure: Any = static(repr=False)

    @classmethod
    def of(cls, problem: Problem, *groups: Group) -> "Grouped":
        """Return a problem with groups of leaves; leaves in none of them are shared.

        Args:
            problem: The problem of the whole model.
            *groups: The groups, of which one may be `Personal`.

        Raises:
            UserError: A pattern matches nothing or everything, a leaf is in two groups, or two groups are personal.
        """
        problem = bare(problem)
        personal = [group for group in groups if isinstance(group, Personal)]
        if len(personal) > 1:
            raise UserError("two groups are Personal: put the leaves of both in one")
        if any(not isinstance(group, Group) for group in groups):
            raise UserError(f"groups are Personal, Frozen or Adapter, not {groups!r}: write t.Frozen('embedding'), for instance")
        adapters = [group for group in groups if isinstance(group, Adapter)]
        fixed, moved = (), ()
        if adapters:
            problem = Adapted.of(problem, adapters)
            fixed, moved = problem.fixed, tuple(site.name for site in problem.stacked)
        like = jax.eval_shape(lambda: problem.start(host_key(0)))
        own = {"schema": problem.schema, "personal": personal[0] if personal else None}
        rest = [group for group in groups if not isinstance(group, Adapter)]
        of = assigned(leaves_by_name(like), problem.statistics, rest, fixed, moved)
        return cls(*parts_of(problem), **own, groups=of, structure=jax.tree.structure(like))

    def around(self, problem: Problem) -> "Grouped":
        """Return another problem of the same model, with the same groups.

        Args:
            problem: The problem.
        """
        problem = bare(problem)
        if isinstance(self.inner, Adapted):
            problem = self.inner.around(problem)
        return Grouped(*parts_of(problem), self.personal, self.groups, self.structure, schema=problem.schema)

    def start(self, key):
        """Return the initial shared leaves, by name."""
        return self.split(ungrouped(self).start(key))[0]

    def split(self, whole: PyTree) -> tuple[Leaves, Leaves]:
        """Return the shared leaves and the others of a whole model, by name."""
        leaves = leaves_by_name(whole)
        shared = {name: leaves[name] for name in self.groups.shared}
        return shared, {name: leaf for name, leaf in leaves.items() if name not in shared}

    def whole(self, leaves: Leaves) -> PyTree:
        """Return the model that has these leaves, all of them by name."""
        return jax.tree.unflatten(self.structure, [leaves[name] for name in self.groups.leaves])

    def losses(self, x, rows, **counted):
        whole, key = self._whole_of(x), x.key
        if key is None or not self.inner.trains_apart:
            return self.inner.losses(whole, rows, **counted)
        inside = counted.get("counted", jnp.ones(jax.tree.leaves(rows)[0].shape[0], bool))
        return self.inner.training(whole, rows, inside, key)[0]

    def training(self, x, rows, counted, key):
        losses, statistics = self.inner.training(self._whole_of(x), rows, counted, key)
        return losses, {name: statistics[name] for name in self.groups.moved}

    def regulariser(self, x):
        return self.inner.regulariser(self._whole_of(x))

    def correct(self, x, rows, **counted):
        return self.inner.correct(self._whole_of(x), rows, **counted)

    def predicted(self, x, rows, **counted):
        return self.inner.predicted(self._whole_of(x), rows, **counted)

    def client(self, i):
        if not self.inner.remote:
            return super().client(i)
        client = ungrouped(self).client(i)
        return self.around(client) if isinstance(client, Problem) else at_points(client, self)

    @property
    def statistics(self):
        return self.groups.moved

    def _whole_of(self, x: Any) -> PyTree:
        """Return the model at a `Point`."""
        if not isinstance(x, Point):
            raise UserError(
                "the loss of a problem with groups needs all leaves of its model, and only its clients and runs have them: "
                "take the problem without groups"
            )
        return self.whole({**x.fixed, **x.varied})


def with_groups(problem: Problem, asked: tuple[Group, ...] = (), who: str = "") -> Problem:
    """Return a problem with the groups that an algorithm asks for, and with groups where statistics need them.

    Args:
        problem: A problem, with groups or without.
        asked: The groups of the algorithm.
        who: Name of the algorithm.

    Raises:
        UserError: Both the problem and the algorithm have groups, and not the same.
    """
    if not asked:
        return problem if isinstance(problem, Grouped) or not problem.statistics else Grouped.of(problem)
    new = Grouped.of(problem, *asked)
    if isinstance(problem, Grouped) and (problem.groups.personal or problem.groups.frozen):
        if (new.groups, new.personal) != (problem.groups, problem.personal):
            raise UserError(f"{who} has groups of its own, and so has the problem: leave one of them out")
    return new


def ungrouped(problem: Problem) -> Problem:
    """Return the problem of the whole model: what `Grouped.of` was given.

    Args:
        problem: A problem, with groups or without.
    """
    return problem.inside if isinstance(problem, Grouped) else problem
