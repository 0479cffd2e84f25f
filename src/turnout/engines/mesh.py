"""The compiled engine on a mesh of devices: each holds the rows and the private states of its own clients."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from turnout.core.compiling import program
from turnout.core.errors import UserError
from turnout.engines.compiled import Compiled, advance
from turnout.engines.inputs import Job
from turnout.engines.mesh_ask import MeshAsk
from turnout.engines.processes import whole
from turnout.engines.state import Progress, begin
from turnout.problems.storage.sharded import AXIS, clients_per_device, is_own, shard

EVERYWHERE, APART = PartitionSpec(), PartitionSpec(AXIS)
"""Arrays that are the same on all devices, and those of which each device has a part."""


class MeshEngine(Compiled):
    """Plays rounds of one algorithm on a mesh: the same run as `Compiled`'s, up to the order of sums over devices.

    All devices run the server's part. A client is trained where its rows are; of the replies, sums travel between devices, or
    all of them where the algorithm reads each.

    Args:
        mesh: The devices.
        job: Inputs of the run.
        algorithm: The algorithm, bound to the problem.
        metrics: Names of the metrics in a trace row.
        every: Rounds between two trace rows.
    """

    def __init__(self, mesh: Mesh, job: Job, algorithm, metrics: tuple[str, ...], every: int):
        super().__init__(job, algorithm, metrics, every)
        self.mesh, self._spread = mesh, spread(job, mesh)

    @property
    def _inputs(self) -> Job:
        """The inputs of the run over the devices; a checkpoint may have changed the secret."""
        return replace(self._spread, secret=self.job.secret)

    def begin(self) -> Progress:
        """Return the state before the first round."""
        return _begin(self._inputs, self.algorithm, sites=self.sites, mesh=self.mesh)

    def advance(self, progress: Progress, limit: int, rows: int) -> tuple[Progress, dict]:
        """Play until `rows` more trace rows are written or the round `limit` is reached; `progress` is donated."""
        options = {"sites": self.sites, "metrics": self.metrics, "mesh": self.mesh}
        progress, table = _advance(self._inputs, self.algorithm, progress, limit, rows, self.every, **options)
        return progress, jax.tree.map(lambda column: np.asarray(column)[:rows], table)

    def saved(self, progress):
        n = self.job.population.count
        clients = jax.tree.map(lambda leaf: leaf[:n], whole(progress.clients))
        return jax.tree.map(np.asarray, progress._replace(clients=None))._replace(clients=clients)

    def restored(self, saved):
        n, devices = self.job.population.count, self.mesh.size
        missing = clients_per_device(n, devices) * devices - n
        clients = jax.tree.map(lambda leaf: np.pad(leaf, [(0, missing)] + [(0, 0)] * (leaf.ndim - 1)), saved.clients)
        clients = jax.tree.map(lambda leaf: placed_over(leaf, self.mesh, APART), clients)
        rest = jax.tree.map(lambda leaf: placed_over(leaf, self.mesh, EVERYWHERE), saved._replace(clients=None))
        return rest._replace(clients=clients)


def mesh_of(devices: int) -> Mesh:
    """Return a mesh of some of JAX's devices.

    Args:
        devices: How many.

    Raises:
        UserError: JAX has fewer.
    """
    known = jax.devices()
    if len(known) < devices:
        raise UserError(
            f"mesh = {devices} needs as many devices, and JAX has {len(known)} of kind {known[0].platform!r}: lower it, or for "
            f"the cores of this machine set JAX_NUM_CPU_DEVICES={devices} in the environment"
        )
    return Mesh(np.array(known[:devices]), (AXIS,))


def spread(job: Job, mesh: Mesh) -> Job:
    """Return the inputs of a run with the clients' rows over the devices of a mesh, and all else on each of them."""
    own = {k: device for k, device in enumerate(mesh.devices.flat) if device.process_index == jax.process_index()}
    jobs = [replace(job, storage=shard(job.storage, k, mesh.size)) for k in own]

    def placed(path, *leaves):
        if not _is_apart(path):
            return placed_over(leaves[0], mesh, EVERYWHERE)
        shape = (len(leaves[0]) * mesh.size, *leaves[0].shape[1:])
        parts = [jax.device_put(_in_precision(leaf), device) for leaf, device in zip(leaves, own.values(), strict=True)]
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(mesh, APART), parts)

    return jax.tree_util.tree_map_with_path(placed, *jobs)


def placed_over(leaf, mesh: Mesh, spec: PartitionSpec) -> jax.Array:
    """Return an array that all processes have as one over the devices of a mesh.

    Args:
        leaf: The array.
        mesh: The devices.
        spec: Which axis is over the devices.
    """
    known = _in_precision(leaf)
    return jax.make_array_from_callback(known.shape, NamedSharding(mesh, spec), lambda part: known[part])


def _in_precision(leaf) -> np.ndarray:
    """Return an array of this machine in the precision in force."""
    known = np.asarray(leaf)
    return known.astype(jnp.result_type(float), copy=False) if np.issubdtype(known.dtype, np.floating) else known


def _is_apart(path: tuple) -> bool:
    return path[0].name == "storage" and is_own(path[1:])


PROGRESS = Progress(*(APART if name == "clients" else EVERYWHERE for name in Progress._fields))


def _specs(job: Job) -> PyTree:
    """Return which inputs of a run are the same on all devices, and which are apart."""
    return jax.tree_util.tree_map_with_path(lambda path, _: APART if _is_apart(path) else EVERYWHERE, job)


@partial(program, static_argnames=("sites", "mesh"))
def _begin(job: Job, algorithm, *, sites, mesh) -> Progress:
    def play(job, algorithm):
        return begin(MeshAsk, job, algorithm, sites)

    inputs = _specs(job), EVERYWHERE
    return jax.shard_map(play, mesh=mesh, in_specs=inputs, out_specs=PROGRESS, check_vma=False)(job, algorithm)


@partial(program, static_argnames=("sites", "metrics", "mesh"), donate_argnames=("progress",))
def _advance(job: Job, algorithm, progress: Progress, limit, rows, every, *, sites, metrics, mesh):
    play = partial(advance, sites=sites, metrics=metrics, asks=MeshAsk)
    inputs = _specs(job), EVERYWHERE, PROGRESS, EVERYWHERE, EVERYWHERE, EVERYWHERE
    outputs = PROGRESS, EVERYWHERE
    over_devices = jax.shard_map(play, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False)
    return over_devices(job, algorithm, progress, limit, rows, every)
