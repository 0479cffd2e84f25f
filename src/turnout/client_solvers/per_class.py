"""Another local solver for each class of clients."""

from dataclasses import replace
from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from turnout.client_solvers.base import LocalSolver, Solved
from turnout.core.errors import UserError
from turnout.core.records import Index, record


@record
class PerClass(LocalSolver):
    """Client i minimises phi by `solvers`[`classes`[i]], n classes being counted from 0.

    No other one runs, except where an engine works on the clients of a cohort at once, holding their rows in tiles.
    """

    solvers: list[LocalSolver]
    classes: list[Index] | Int[np.ndarray, " n"]

    def bind(self, problem):
        classes, many = np.asarray(self.classes), len(self.solvers)
        if classes.shape != (problem.clients,):
            raise UserError(
                f"solver PerClass needs classes of {problem.clients} clients, one number for each, but has {classes.size}"
            )
        if not np.all(np.isin(classes, np.arange(many))):
            i = int(np.argmin(np.isin(classes, np.arange(many))))
            raise UserError(f"client {i} is of class {classes[i]}, but PerClass has only {many} solvers, counted from 0")
        return replace(self, solvers=[solver.bind(problem) for solver in self.solvers], classes=classes.astype("int32"))

    def minimise(self, client, tilt, start, delta=None, convexity=None):
        def by(solver: LocalSolver) -> Solved:
            point, *counts = solver.minimise(client, tilt, start, delta, convexity)
            return Solved(point, *(jnp.asarray(count, "int32") for count in counts))

        return client.choose(jnp.asarray(self.classes)[client.id], [partial(by, solver) for solver in self.solvers])
