"""Passes over all clients, as many at a time as a cohort has."""

import jax

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.problems.base import Population
from turnout.samplers import Available, Full, Sampler


class Gradients(Algorithm):
    """Clients can be asked for grad f_i(x)."""

    @on_client
    def gradient(self, client, x):
        """grad f_i(x)."""
        return Done(client.grad(x))


def everyone(sampler: Sampler, population: Population) -> Full:
    """Return all clients as a pass that is charged as ceil(n / m) arbitrary selections, `sampler` drawing m at a time."""
    return Full(cohort_size(sampler, population))


def cohort_size(sampler: Sampler, population: Population) -> int:
    """Return m, how many clients `sampler` asks at a time: its size, or at most, where it has none."""
    if isinstance(sampler, Available):
        raise UserError("a full pass asks everyone: take a sampler whose clients are always there")
    size = getattr(sampler, "size", None)
    if size is not None:
        return max(1, round(size))
    return jax.eval_shape(lambda key: sampler.draw(sampler.start(population), key, population), jax.random.key(0)).places
