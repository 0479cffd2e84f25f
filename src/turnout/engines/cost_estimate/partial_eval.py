"""Which results of a traced program depend on inputs that are not known, and the program without those."""

from collections.abc import Sequence
from typing import Any

from jax import lax
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Var
from jaxtyping import PyTree

BARRIER = "optimization_barrier"


def veiled(tree: PyTree) -> PyTree:
    """Return `tree` as it is, but as something that counts as not known."""
    return lax.optimization_barrier(tree)


def known(program: ClosedJaxpr, inputs: Sequence[bool]) -> list[bool]:
    """Tell which outputs depend on none but the known of the `inputs`."""
    jaxpr = program.jaxpr
    hidden = {var for var, is_known in zip(jaxpr.invars, inputs, strict=True) if not is_known}
    for step in jaxpr.eqns:
        if step.primitive.name == BARRIER or not hidden.isdisjoint(_variables(step.invars)):
            hidden.update(step.outvars)
    return [hidden.isdisjoint(_variables([var])) for var in jaxpr.outvars]


def evaluate(program: ClosedJaxpr, wanted: Sequence[bool], inputs: Sequence[Any]) -> list[Any]:
    """Return the `wanted` outputs, None in the place of the others; inputs that they do not depend on may be None too."""
    jaxpr = program.jaxpr
    outputs = [var for var, is_wanted in zip(jaxpr.outvars, wanted, strict=True) if is_wanted]
    needed, steps = set(_variables(outputs)), []
    for step in reversed(jaxpr.eqns):
        if not needed.isdisjoint(step.outvars):
            steps.append(step)
            needed.update(_variables(step.invars))
    names = jaxpr.debug_info.with_unknown_names()
    short = jaxpr.replace(eqns=steps[::-1], outvars=outputs, debug_info=names)
    values = iter(eval_jaxpr(short, program.consts, *inputs))
    return [next(values) if is_wanted else None for is_wanted in wanted]


def _variables(atoms: Sequence[Any]) -> list[Var]:
    """Leave out literals."""
    return [atom for atom in atoms if isinstance(atom, Var)]
