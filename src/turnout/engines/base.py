"""What a session asks of an engine."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.core.leaf_names import OwnLeaves
from turnout.engines.client_runner import client_runner
from turnout.engines.groups.evaluation import own_leaves, personalised, trains_after
from turnout.engines.inputs import Job
from turnout.engines.state import Progress
from turnout.problems.base import Problem
from turnout.samplers.base import samplers_in


class Engine(ABC):
    """Plays the rounds of runs, whose inputs are `job`."""

    job: Job
    algorithm: Algorithm

    @abstractmethod
    def begin(self) -> Progress:
        """Return the state before the first round."""

    @abstractmethod
    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play until `rows` more trace rows are written or the round `limit` is reached; `progress` is used up."""

    def saved(self, progress: Progress) -> Progress:
        """Return the progress as a checkpoint keeps it."""
        return jax.tree.map(np.asarray, progress._replace(samplers=self._each_sampler("saved", progress)))

    def restored(self, saved: Progress) -> Progress:
        """Return the progress that `saved` keeps."""
        return jax.tree.map(jnp.array, saved._replace(samplers=self._each_sampler("restored", saved)))

    def _each_sampler(self, change: str, progress: Progress) -> list:
        """Return the states of the samplers as their `saved` or `restored` changes them."""
        samplers = samplers_in(self.algorithm)
        return [getattr(one, change)(state) for one, state in zip(samplers, progress.samplers, strict=True)]

    def others(self, k: int = 0) -> dict:
        """Return the first leaves of the model that the algorithm does not see, by name, of the `k`-th cell of a sweep.

        Args:
            k: Number of the cell.
        """
        return self.job.others

    def own_leaves(self, progress: Progress, problem: Problem) -> OwnLeaves:
        """Return a function from a client to the leaves of its own model; None where it has none, or only it knows them.

        Args:
            progress: State of the run.
            problem: The problem of the run.
        """
        if not personalised(self.algorithm):
            return None
        clients = jax.tree.map(np.asarray, progress.clients)
        return self._own_leaves(progress, problem, lambda i: jax.tree.map(lambda leaf: leaf[i], clients))

    def _own_leaves(self, progress: Progress, problem: Problem, state_of: Callable[[int], PyTree]) -> OwnLeaves:
        """Return the same where `state_of` returns the private state of a client."""
        x, statistics = jax.tree.map(np.asarray, (self.algorithm.output(progress.server), progress.statistics))

        def own(i: int) -> dict:
            if not 0 <= i < problem.clients:
                raise UserError(f"there is no client {i}: the run has clients 0 to {problem.clients - 1}")
            state = state_of(i)
            if trains_after(self.algorithm):
                runner = client_runner(problem.client(i), self.job.storage.mixed)
                state = runner.trained_state(self.algorithm, i, x, statistics, state)
            return jax.tree.map(np.asarray, own_leaves(self.algorithm, x, state))

        return own

    def saved_model(self, problem: Problem, x: PyTree) -> PyTree:
        """Return what the file of a model with the parameters x of `problem` holds."""
        return problem.saved(x)

    def facts(self) -> dict:
        """Return what a summary tells of the clients' processes; nothing where there are none."""
        return {}

    def speeds(self) -> str | None:
        """Return the measured speeds of the clients as a CSV file that `Devices.from_csv` reads; None where none are measured."""
        return None

    def arrivals(self) -> str | None:
        """Return when the reply to each request in flight came as a CSV file that `Devices` replays; None if not known."""
        return None

    def suspect(self) -> str | None:
        """Return a sentence about the client whose replies stand out; None where there is none or nobody sees its replies."""
        return None
