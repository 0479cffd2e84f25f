"""Test rows and held-out clients whose losses are no JAX functions: their clients, in this process, are only evaluated."""

from collections.abc import Callable

import numpy as np
from jaxtyping import PyTree

from turnout.engines.client_runner import client_runner
from turnout.engines.metrics import OVER_CLIENTS
from turnout.problems.base import Problem


class RemoteEvaluation:
    """Evaluates the clients of a problem such as `Remote` one after another.

    Args:
        problem: The problem.
        prefix: "test" or "held_out".
        metrics: Names of the metrics of the run.
    """

    def __init__(self, problem: Problem, prefix: str, metrics: tuple[str, ...]):
        mine = {name.removeprefix(f"{prefix}_") for name in metrics if name.startswith(f"{prefix}_")}
        self.names = tuple(sorted({"accuracy" if name in OVER_CLIENTS else name for name in mine}))
        self.shares = np.asarray(problem.population.shares)
        self.clients = [client_runner(problem.client(i)) for i in range(problem.clients if self.names else 0)]

    def __call__(self, model: Callable[[int], PyTree]) -> dict[str, np.ndarray]:
        """Return the means over the clients, weighted by their shares, and under "accuracies" the accuracy of each.

        Args:
            model: Returns where the function of each client is evaluated.
        """
        parts = [client.measure(self.names, model(i)) for i, client in enumerate(self.clients)]
        each = {name: np.stack([np.asarray(part[name]) for part in parts]) for name in self.names}
        means = {name: np.asarray(self.shares @ values) for name, values in each.items()}
        return means | ({"accuracies": each["accuracy"]} if "accuracy" in each else {})
