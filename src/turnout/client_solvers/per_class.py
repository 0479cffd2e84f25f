"""A local solver for each class of clients."""

from dataclasses import replace
from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from turnout.client_solvers.base import LocalSolver, Solution
from turnout.core.errors import UserError
from turnout.core.records import Index, record


@record
class PerClass(LocalSolver):
    """A solver for each class of clients: client i minimises phi by `solvers[classes[i]]`.

    Only that solver runs, except where an engine computes on all clients of a cohort at once, with their rows in tiles.

    Args:
        solvers: One solver for each class.
        classes: The class of each client [n], counted from 0.

    Raises:
        UserError: If `classes` does not fit the clients or the solvers.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> solver = t.client_solvers.PerClass([t.client_solvers.Gradient(), t.client_solvers.NewtonCg()], [0, 1] * 4)
        >>> t.run(t.PointSaga(t.Nice(4), solver, gamma=0.2), problem, rounds=10).ledger.totals()["arrivals"]
        40
    """

    solvers: list[LocalSolver]
    classes: list[Index] | Int[np.ndarray, " n"]

    def bind(self, problem):
        classes, count = np.asarray(self.classes), len(self.solvers)
        if classes.shape != (problem.clients,):
            raise UserError(
                f"solver PerClass needs classes of {problem.clients} clients, one number for each, but has {classes.size}"
            )
        if not np.all(np.isin(classes, np.arange(count))):
            i = int(np.argmin(np.isin(classes, np.arange(count))))
            raise UserError(f"client {i} is of class {classes[i]}, but PerClass has only {count} solvers, counted from 0")
        return replace(self, solvers=[solver.bind(problem) for solver in self.solvers], classes=classes.astype("int32"))

    def minimise(self, client, tilt, start, delta=None, convexity=None):
        def by(solver: LocalSolver) -> Solution:
            point, *counts = solver.minimise(client, tilt, start, delta, convexity)
            return Solution(point, *(jnp.asarray(count, "int32") for count in counts))

        return client.choose(jnp.asarray(self.classes)[client.id], [partial(by, solver) for solver in self.solvers])
