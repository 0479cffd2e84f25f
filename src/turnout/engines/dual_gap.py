"""The dual gap of dual methods, as a metric."""

from typing import cast

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from turnout.client_solvers import NewtonCg, Tilt
from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.engines.inputs import Job
from turnout.problems.storage.jax_client import JaxClient
from turnout.problems.storage.layout import InMemory

SOLVER = NewtonCg(tolerance=1e-9)
"""Solves the clients' problems; the value of a solution errs by at most the square of this over 2 mu_i."""


def dual_gap(job: Job, algorithm: Algorithm, server: PyTree, clients: PyTree, round) -> Float[Array, ""]:
    """Return G(y) - G* = sum_i lambda_i f_i*(y_i) + f(x*), f_i*(y) = max_w <y, w> - f_i(w) (FedDCD, section 3, there as a sum).

    Args:
        job: Inputs of the engine, with the minimiser x*.
        algorithm: A dual method.
        server: State of the server.
        clients: States of the clients that are here [clients, ...].
        round: Number of rounds played.
    """
    optimum, storage = job.optimum, cast(InMemory, job.storage)
    start = jax.tree.map(jnp.asarray, optimum.x)

    def conjugate(place):
        i, y = place
        client = JaxClient(i, jax.random.key(0), None, job.storage.oracle(i))
        w = SOLVER.minimise(client, Tilt(linear=y), start).point
        return sum(jax.tree.leaves(jax.tree.map(jnp.vdot, y, w))) - client.value(w)

    ids, n = storage.ids, job.population.count
    duals = algorithm.duals(server, storage.of_all_clients(clients), round)
    own = jax.tree.map(lambda leaf: leaf[jnp.minimum(ids, n - 1)], duals)
    values = lax.map(conjugate, (ids, own), batch_size=job.chunk)
    # A device of a mesh may have places for more clients than there are.
    shares = jnp.where(ids < n, job.population.shares[jnp.minimum(ids, n - 1)], 0)
    return storage.over_devices(jnp.sum(shares * jnp.where(ids < n, values, 0))) + jnp.asarray(optimum.value, values.dtype)


def refuse_dual_gap(algorithm: Algorithm, metrics: tuple[str, ...], *, compiled: bool) -> None:
    """Raise `UserError` where the metric "dual_gap" is asked for and not known.

    Args:
        algorithm: The algorithm.
        metrics: Names of the metrics.
        compiled: Whether the engine is the compiled one, with the clients in memory.
    """
    if "dual_gap" not in metrics:
        return
    if type(algorithm).duals is Algorithm.duals:
        raise UserError(f"metric 'dual_gap' is about FedDcd and AccFedDcd, not {type(algorithm).__name__}: leave it out")
    if not compiled:
        raise UserError(
            "metric 'dual_gap' needs the dual variables of all clients at hand: use engine = 'compiled' and storage = 'memory'"
        )
