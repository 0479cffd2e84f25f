"""Cells of a sweep over the devices of a mesh: each device has all rows, and plays some of the cells."""

from collections.abc import Callable, Hashable
from functools import partial

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from turnout.core.compiling import program
from turnout.engines.mesh import APART, EVERYWHERE, placed_over
from turnout.engines.processes import whole


def everywhere(inputs: PyTree, mesh: Mesh) -> PyTree:
    """Return the arrays of a pytree on each device of a mesh; single numbers are left as they are.

    Args:
        inputs: The pytree.
        mesh: The devices.
    """
    return jax.tree.map(lambda leaf: leaf if isinstance(leaf, int | float) else placed_over(leaf, mesh, EVERYWHERE), inputs)


def over_devices(mesh: Mesh, play: Callable, inputs: PyTree, cells: PyTree, rest: tuple = (), **static: Hashable) -> PyTree:
    """Return `play(*inputs, cells, *rest, **static)`, whose arrays have the cells as leading axis, as arrays of this machine.

    Args:
        mesh: The devices.
        play: Function that plays cells one after another.
        inputs: What each device has, from `everywhere`.
        cells: Pytree of arrays with the cells as leading axis; the last one fills the places that would be empty.
        rest: Numbers.
        **static: What a program is compiled for.
    """
    count = len(jax.tree.leaves(cells)[0])
    missing = -count % mesh.size

    def apart(leaf):
        return placed_over(np.pad(np.asarray(leaf), [(0, missing)] + [(0, 0)] * (np.ndim(leaf) - 1), mode="edge"), mesh, APART)

    result = _program(inputs, jax.tree.map(apart, cells), rest, play=play, mesh=mesh, static=tuple(sorted(static.items())))
    return jax.tree.map(lambda leaf: leaf[:count], whole(result))


@partial(program, static_argnames=("play", "mesh", "static"))
def _program(inputs, cells, rest, *, play, mesh, static):
    def own(inputs, cells, rest):
        return play(*inputs, cells, *rest, **dict(static))

    return jax.shard_map(own, mesh=mesh, in_specs=(EVERYWHERE, APART, EVERYWHERE), out_specs=APART, check_vma=False)(
        inputs, cells, rest
    )
