"""An algorithm on a problem with groups: its local methods see the shared leaves, and clients keep the rest."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.codecs.coded import Coded
from turnout.core.algorithm import Algorithm
from turnout.core.client import Client, Done
from turnout.core.errors import UserError
from turnout.core.local_methods import BOTH, LOSS, NORM
from turnout.core.records import record, static
from turnout.engines.groups.alternating import alternating
from turnout.engines.groups.grouped_client import PASS, GroupedClient, Own
from turnout.engines.groups.halves import Halves
from turnout.engines.groups.singular import singular
from turnout.engines.groups.stacked import stacked
from turnout.engines.inputs import Job
from turnout.io.serialization import copy_leaves
from turnout.problems.adapters.adapted import Adapted
from turnout.problems.adapters.sites import Site
from turnout.problems.grouped import Grouped, Leaves
from turnout.problems.groups import Assignment, Personal
from turnout.problems.row_sums import Point

BEFORE = 2_000_029
"""Folded into a client's key for the batches of the steps before a local method."""


class GroupedState(NamedTuple):
    """The private state of a client.

    Args:
        own: Its state in the algorithm.
        personal: Its personal leaves.
    """

    own: PyTree
    personal: Leaves


@record
class GroupedAlgorithm(Algorithm):
    """The `algorithm` on a problem with groups; made by the engines.

    Args:
        algorithm: The algorithm, bound to the problem.
        personal: How personal leaves are trained; None where there are none.
        first: The first personal leaves, the same for every client.
        frozen: The frozen leaves.
        statistics: The first statistics of those that the server averages.
        groups: The group of each leaf.
        draws: Whether a pass in training gets a random key.
        sites: The matrices with adapters whose ranks differ between clients.
    """

    algorithm: Algorithm
    personal: Personal | None
    first: Leaves
    frozen: Leaves
    statistics: Leaves
    groups: Assignment = static()
    draws: bool = static()
    sites: tuple[Site, ...] = static(default=())

    wraps: ClassVar[str] = "algorithm"

    cohorts_per_round = None

    @property
    def addressed(self):
        return self.algorithm.addressed

    @property
    def cut(self) -> tuple[Site, ...]:
        """The matrices of whose adapters a client is sent and sends back only what it has."""
        inner = self.algorithm.algorithm if isinstance(self.algorithm, Halves) else self.addressed
        # Other replies may be points, whose mean needs every row, and states of clients may have every row of a message.
        plain = inner.replies_differences and type(inner).client_state is Algorithm.client_state and not inner.places
        return self.sites if plain else ()

    def part(self, leaves: Leaves, i: Any) -> Leaves:
        """Return leaves with zeros in the place of what client i does not have of adapters.

        Args:
            leaves: The leaves by name.
            i: The client.
        """
        for site in self.sites:
            leaves = site.of_client(leaves, i)
        return leaves

    def local(self, method, name):
        return partial(_grouped, self, method, name)

    def start(self, ask, x):
        return self.algorithm.start(ask, x)

    def round(self, ask, server):
        return self.algorithm.round(ask, server)

    def output(self, server):
        return self.algorithm.output(server)

    def client_state(self, x):
        own = self.algorithm.client_state(x)
        return GroupedState(own, self.first) if self.first else own

    def duals(self, server, clients, round):
        return self.algorithm.duals(server, clients.own if self.first else clients, round)

    @property
    def trains_after(self) -> bool:
        """Whether personal leaves are trained where models of clients are asked for, and never in a round."""
        return self.personal is not None and self.personal.trained == "after" and bool(self.groups.own)

    def trained(self, client: Client, x: Leaves, statistics: Leaves, personal: Leaves, steps: Any = None) -> Leaves:
        """Return the personal leaves of a client after steps at the shared leaves.

        Args:
            client: The client, whose function is of the whole model.
            x: The shared leaves.
            statistics: The statistics that the server averages.
            personal: The personal leaves before.
            steps: How many steps; None for those of the group.
        """
        if self.personal is None or not self.groups.own:
            return personal
        key = jax.random.fold_in(client.key, PASS) if self.draws else None
        own = Own(self.groups, self.frozen, {**personal, **statistics}, None, key, partial(self.part, i=client.id))
        trained_before(GroupedClient(client, own), self.personal, x, self.personal.steps if steps is None else steps)
        return {name: own.leaves[name] for name in personal}

    def point(self, x: Leaves, statistics: Leaves, personal: Leaves) -> Point:
        """Return where the function of a client is evaluated.

        Args:
            x: The shared leaves.
            statistics: The statistics that the server averages.
            personal: The personal leaves of the client.
        """
        return Point(x, {**self.frozen, **statistics, **personal})


def grouped(job: Job, algorithm: Algorithm) -> Algorithm:
    """Return `algorithm` on the problem of a job, whose local methods see the shared leaves where it has groups.

    Args:
        job: Inputs of the engine.
        algorithm: The algorithm, bound to the problem.
    """
    problem = job.storage.problem
    if not isinstance(problem, Grouped):
        return algorithm
    sites = ()
    if isinstance(problem.inner, Adapted):
        algorithm = alternating(algorithm, *problem.inner.alternating, job.start)
        algorithm = stacked(algorithm, problem.inner.stacked, job.start)
        algorithm = singular(algorithm, problem.inner.by_singular_values, job.start)
        sites = tuple(site for site in problem.inner.sites if site.ranks is not None)
    groups, others = problem.groups, job.others
    parts = (groups.personal, groups.frozen, groups.averaged)
    first, frozen, statistics = ({name: others[name] for name in names} for names in parts)
    return GroupedAlgorithm(algorithm, problem.personal, first, frozen, statistics, groups, problem.takes_keys, sites)


def apart_from(algorithm: Algorithm) -> Algorithm:
    """Return a copy of the algorithm of an engine that shares no memory with it but that of frozen leaves, which are constant.

    Args:
        algorithm: The algorithm.
    """
    if isinstance(algorithm, Coded) and isinstance(algorithm.algorithm, GroupedAlgorithm):
        rest = copy_leaves(replace(algorithm, algorithm=replace(algorithm.algorithm, frozen={})))
        return replace(rest, algorithm=replace(rest.algorithm, frozen=algorithm.algorithm.frozen))
    if isinstance(algorithm, GroupedAlgorithm):
        return replace(copy_leaves(replace(algorithm, frozen={})), frozen=algorithm.frozen)
    return copy_leaves(algorithm)


def for_cell(algorithm: Algorithm, others: Leaves) -> Algorithm:
    """Return the algorithm of one cell of a sweep, with the first leaves of its own model, trained with its own numbers.

    Args:
        algorithm: The algorithm of an engine.
        others: The first leaves of the cell's model that the algorithm does not see, by name.
    """
    if isinstance(algorithm, Coded):
        return replace(algorithm, algorithm=for_cell(algorithm.algorithm, others))
    if not isinstance(algorithm, GroupedAlgorithm):
        return algorithm
    asked = (group for group in algorithm.addressed.model_groups if isinstance(group, Personal))
    algorithm = replace(algorithm, personal=next(asked, algorithm.personal))
    parts = {"first": algorithm.groups.personal, "frozen": algorithm.groups.frozen, "statistics": algorithm.groups.averaged}
    return replace(algorithm, **{part: {name: others[name] for name in names} for part, names in parts.items()})


def _grouped(grouped: GroupedAlgorithm, method: Callable, name: str, client: Client, message: PyTree) -> Done:
    """Run a local method on the client's function of the shared leaves, after what the client trains by itself."""
    message, statistics = message if grouped.statistics else (message, {})
    own, personal = client.state if grouped.first else (client.state, {})
    variant, spec = name.split(".")[-1], grouped.personal
    preview = variant in (NORM, LOSS)
    key = jax.random.fold_in(client.key, PASS) if grouped.draws else None
    within = spec is not None and spec.trained == "within" and bool(grouped.groups.own)
    part = partial(grouped.part, i=client.id)
    held = Own(grouped.groups, grouped.frozen, {**personal, **statistics}, -spec.lr if within else None, key, part)
    inside = GroupedClient(client.with_state(own), held)
    queries = 0
    if not preview and spec is not None and spec.trained == "before" and grouped.groups.own:
        queries = trained_before(inside, spec, shared_in(message, grouped.groups, name), spec.steps)
    done = method(inside, message)
    if preview:
        return done
    if held.pending:
        raise UserError(
            f"{name} takes gradients in a loop of JAX, where statistics and personal leaves do not move: loop with client.loop"
        )
    leaves = held.leaves
    state = own if done.state is None else done.state
    if grouped.first:
        state = GroupedState(state, {name: leaves[name] for name in personal})
    reply = done.reply
    if grouped.statistics:
        moved = {name: leaves[name] for name in statistics}
        reply = ((reply[0], moved), reply[1]) if variant == BOTH else (reply, moved)
    return done._replace(reply=reply, state=state, queries=jnp.asarray(done.queries, "int32") + jnp.asarray(queries, "int32"))


def trained_before(client: GroupedClient, spec: Personal, x: Leaves, steps: Any) -> Any:
    """Train the personal leaves at the shared leaves x, and return how many queries that took.

    Args:
        client: The client.
        spec: How they are trained.
        x: The shared leaves.
        steps: How many steps.
    """

    def step(number):
        if spec.batch is None:
            client.personal_step(x, -spec.lr)
        else:
            key = jax.random.fold_in(jax.random.fold_in(client.key, BEFORE), number)
            client.batch(key, spec.batch).personal_step(x, -spec.lr)
        return number + 1

    client.loop(steps, step, jnp.zeros((), "int32"))
    return steps


def shared_in(message: PyTree, groups: Assignment, name: str) -> Leaves:
    """Return the first part of a message that has the shared leaves; `UserError` where none has.

    Args:
        message: The message.
        groups: The group of each leaf.
        name: Address of the local method.
    """

    def is_shared(part: Any) -> bool:
        return isinstance(part, dict) and tuple(sorted(part)) == tuple(sorted(groups.shared))

    found = next(filter(is_shared, jax.tree.leaves(message, is_leaf=is_shared)), None)
    if found is None:
        raise UserError(
            f"{name} is sent no parameters, at which personal leaves could be trained before it: take trained = 'within'"
        )
    return found
