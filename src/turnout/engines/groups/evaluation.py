"""The models that metrics are of: where clients have their own, each client's."""

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, PyTree

from turnout.codecs.coded import CodedState
from turnout.core.algorithm import Algorithm
from turnout.core.leaf_names import leaves_by_name
from turnout.engines.groups.grouped_algorithm import GroupedState, trained_before
from turnout.engines.groups.grouped_client import PASS, GroupedClient, Own
from turnout.engines.groups.statistics import grouped_in
from turnout.engines.inputs import Job
from turnout.problems.grouped import Leaves
from turnout.problems.row_sums import Point
from turnout.problems.storage.fetched import Fetched
from turnout.problems.storage.jax_client import JaxClient
from turnout.problems.storage.layout import InMemory, Storage


class Block(NamedTuple):
    """Clients [m] whose states are looked up, as a cohort is.

    Args:
        ids: The clients [m].
        active: All of them [m].
    """

    ids: Int[Array, " m"]
    active: Bool[Array, " m"]

    @property
    def places(self) -> int:
        """m."""
        return self.ids.shape[0]


class PersonalModels(NamedTuple):
    """The models of all clients.

    Args:
        algorithm: The algorithm of the engine.
        first: The private state of a client that was never asked.
        kept: What is kept of the clients' private states.
        x: The parameters, of which the algorithm knows.
        statistics: The statistics that the server averages.
        storage: The rows of the clients.
        chunk: How many clients are evaluated at a time.
    """

    algorithm: Algorithm
    first: PyTree
    kept: PyTree
    x: PyTree
    statistics: Leaves
    storage: Storage
    chunk: int

    def of_each(self, order: str, storage, new: bool = False) -> PyTree:
        """Return the oracle `order` of the function of each client in a storage, at its own model [clients, ...].

        Args:
            order: What is asked, such as "value" or "accuracy".
            storage: The rows of the clients.
            new: Whether these clients never took part: they begin with the first private state, and train personal leaves.
        """
        if new:
            return lax.map(lambda i: storage.oracle(i)(order, self.begun(storage, i)), storage.ids, batch_size=self.chunk)
        if isinstance(self.storage, Fetched):
            return lax.map(lambda i: storage.oracle(i)(order, self.of(self._looked_up(i))), _judged(storage))

        def asked(pair):
            i, state = pair
            return storage.oracle(i)(order, self.of(state))

        # Test rows are on all devices of a mesh.
        kept = self.kept if storage is self.storage else cast(InMemory, self.storage).of_all_clients(self.kept)
        return lax.map(asked, (storage.ids, kept), batch_size=self.chunk)

    def mean_of(self, order: str, storage, new: bool = False) -> Any:
        """Return the mean of `of_each`, weighted by lambda_i.

        Args:
            order: What is asked, such as "value" or "accuracy".
            storage: The rows of the clients.
            new: Whether these clients never took part.
        """
        ids, population = storage.ids, storage.problem.population
        shares = jnp.where(ids < population.count, population.shares[jnp.minimum(ids, population.count - 1)], 0)
        sums = jax.tree.map(lambda each: jnp.tensordot(shares.astype(each.dtype), each, 1), self.of_each(order, storage, new))
        return storage.over_devices(sums) if hasattr(storage, "over_devices") else sums

    def of(self, state: PyTree) -> PyTree | Point:
        """Return where the function of a client with a private state is evaluated."""
        return model_of(self.algorithm, self.x, self.statistics, state)

    def begun(self, storage, i: Int[Array, ""]) -> PyTree | Point:
        """Return where the function of a client that never took part is evaluated: it trains its personal leaves first."""
        grouped = grouped_in(self.algorithm)
        if grouped is None or grouped.personal is None or not grouped.groups.own:
            return self.of(self.first)
        key = jax.random.fold_in(jax.random.key(0), i)
        own = Own(
            grouped.groups, grouped.frozen, {**grouped.first, **self.statistics}, None,
            jax.random.fold_in(key, PASS) if grouped.draws else None, partial(grouped.part, i=i),
        )  # fmt: skip
        client = GroupedClient(JaxClient(i, key, None, storage.oracle(i)), own)
        trained_before(client, grouped.personal, self.x, grouped.personal.new)
        return grouped.point(self.x, self.statistics, {name: own.leaves[name] for name in grouped.first})

    def _looked_up(self, i: Int[Array, ""]) -> PyTree:
        states, _ = self.storage.look_up(self.kept, cast(Any, Block(i[None], jnp.ones(1, bool))), self.first)
        return jax.tree.map(lambda leaf: leaf[0], states)


def _judged(storage: Storage) -> Int[Array, " e"]:
    """Return the clients on which f is evaluated."""
    sample = storage.sample if isinstance(storage, Fetched) else None
    return storage.ids if sample is None else jnp.asarray(sample)


def personalised(algorithm: Algorithm) -> bool:
    """Return whether clients have models of their own.

    Args:
        algorithm: The algorithm of an engine.
    """
    grouped = grouped_in(algorithm)
    return algorithm.addressed.personalises or (grouped is not None and bool(grouped.first))


def model_of(algorithm: Algorithm, x: PyTree, statistics: Leaves, state: PyTree) -> PyTree | Point:
    """Return where the function of a client is evaluated.

    Args:
        algorithm: The algorithm of the engine.
        x: The parameters, of which the algorithm knows.
        statistics: The statistics that the server averages.
        state: The client's private state.
    """
    grouped, (personal, own) = grouped_in(algorithm), parts_of(state)
    x = algorithm.addressed.own_model(x, own) if algorithm.addressed.personalises else x
    return x if grouped is None else grouped.point(x, statistics, personal)


def evaluated(job: Job, algorithm: Algorithm, x: PyTree, statistics: Leaves, clients: PyTree) -> PyTree | Point | PersonalModels:
    """Return what metrics are evaluated at: the parameters, or with groups all leaves of the model, or the models of clients.

    Args:
        job: Inputs of the engine.
        algorithm: The algorithm of the engine.
        x: The parameters, of which the algorithm knows.
        statistics: The statistics that the server averages.
        clients: What is kept of the clients' private states.
    """
    if personalised(algorithm):
        return PersonalModels(algorithm, algorithm.client_state(job.start), clients, x, statistics, job.storage, job.chunk)
    grouped = grouped_in(algorithm)
    return x if grouped is None else grouped.point(x, statistics, {})


def own_leaves(algorithm: Algorithm, x: PyTree, state: PyTree) -> Leaves:
    """Return what the model of a client has in the place of the run's leaves, by name.

    Args:
        algorithm: The algorithm of the engine.
        x: The parameters, of which the algorithm knows.
        state: The client's private state.
    """
    personal, own = parts_of(state)
    mine = leaves_by_name(algorithm.addressed.own_model(x, own)) if algorithm.addressed.personalises else {}
    return {**mine, **personal}


def parts_of(state: PyTree) -> tuple[Leaves, PyTree]:
    """Return the personal leaves in the private state of a client, and its state in the algorithm."""
    state = state.own if isinstance(state, CodedState) else state
    return (state.personal, state.own) if isinstance(state, GroupedState) else ({}, state)
