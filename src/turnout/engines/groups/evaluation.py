"""The models of a run with groups that metrics are of: for each client the shared leaves together with its own."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Int, PyTree

from turnout.core.algorithm import Algorithm
from turnout.engines.groups.grouped_algorithm import GroupedAlgorithm, trained_before
from turnout.engines.groups.grouped_client import PASS, GroupedClient, Own
from turnout.engines.groups.statistics import grouped_in
from turnout.engines.inputs import Job
from turnout.problems.grouped import Leaves
from turnout.problems.row_sums import Point
from turnout.problems.storage.fetched import Fetched
from turnout.problems.storage.jax_client import JaxClient


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
        grouped: The algorithm.
        first: The private state of a client that was never asked.
        kept: What is kept of the clients' private states.
        x: The shared leaves.
        statistics: The statistics that the server averages.
        chunk: How many clients are evaluated at a time.
    """

    grouped: GroupedAlgorithm
    first: PyTree
    kept: PyTree
    x: Leaves
    statistics: Leaves
    chunk: int

    def of_each(self, order: str, storage, new: bool = False) -> PyTree:
        """Return the oracle `order` of the function of each client in a storage, at its own model [clients, ...].

        Args:
            order: What is asked, such as "value" or "accuracy".
            storage: The rows of the clients.
            new: Whether these clients never took part: they begin with the first personal leaves, and train them.
        """
        if new:
            return lax.map(lambda i: self._asked(order, storage, i, self._begun(storage, i)), storage.ids, batch_size=self.chunk)
        if isinstance(storage, Fetched):
            return lax.map(lambda i: self._asked(order, storage, i, self._looked_up(storage, i)), self._judged(storage))
        own = self.grouped.personal_of(self.kept)
        return lax.map(lambda pair: self._asked(order, storage, *pair), (storage.ids, own), batch_size=self.chunk)

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

    def _judged(self, storage: Fetched) -> Int[Array, " e"]:
        return storage.ids if storage.sample is None else jnp.asarray(storage.sample)

    def _looked_up(self, storage: Fetched, i: Int[Array, ""]) -> Leaves:
        states, _ = storage.look_up(self.kept, Block(i[None], jnp.ones(1, bool)), self.first)
        return self.grouped.personal_of(jax.tree.map(lambda leaf: leaf[0], states))

    def _begun(self, storage, i: Int[Array, ""]) -> Leaves:
        grouped = self.grouped
        if grouped.personal is None or not grouped.groups.own:
            return grouped.first
        key = jax.random.fold_in(jax.random.key(0), i)
        leaves = {**grouped.first, **self.statistics}
        passes = jax.random.fold_in(key, PASS) if grouped.draws else None
        own = Own(grouped.groups, grouped.frozen, leaves, None, passes)
        client = GroupedClient(JaxClient(i, key, None, storage.oracle(i)), own)
        trained_before(client, grouped.personal, self.x, grouped.personal.new)
        return {name: own.leaves[name] for name in grouped.first}

    def _asked(self, order: str, storage, i: Int[Array, ""], personal: Leaves) -> PyTree:
        return storage.oracle(i)(order, self.grouped.point(self.x, self.statistics, personal))


def evaluated(job: Job, algorithm: Algorithm, x: PyTree, statistics: Leaves, clients: PyTree) -> PyTree | Point | PersonalModels:
    """Return what metrics are evaluated at: the parameters, or with groups all leaves of the model, or those of each client.

    Args:
        job: Inputs of the engine.
        algorithm: The algorithm of the engine.
        x: The parameters, of which the algorithm knows.
        statistics: The statistics that the server averages.
        clients: What is kept of the clients' private states.
    """
    grouped = grouped_in(algorithm)
    if grouped is None:
        return x
    if not grouped.first:
        return grouped.point(x, statistics, {})
    return PersonalModels(grouped, algorithm.client_state(job.start), clients, x, statistics, job.chunk)
