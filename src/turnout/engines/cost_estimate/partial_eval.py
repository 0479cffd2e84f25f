"""Which results of a traced program depend on unknown inputs, and the program without these results."""

from collections.abc import Sequence
from typing import Any

from jax import lax
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Var
from jaxtyping import PyTree

BARRIER = "optimization_barrier"


def as_unknown(tree: PyTree) -> PyTree:
    """Return `tree` unchanged, but such that `known` counts it as unknown."""
    return lax.optimization_barrier(tree)


def known(program: ClosedJaxpr, inputs: Sequence[bool]) -> list[bool]:
    """Return which outputs depend on no input but those marked as known.

    Args:
        program: A traced program.
        inputs: Whether each input is known.
    """
    jaxpr = program.jaxpr
    unknown = {var for var, is_known in zip(jaxpr.invars, inputs, strict=True) if not is_known}
    for step in jaxpr.eqns:
        if step.primitive.name == BARRIER or not unknown.isdisjoint(_variables(step.invars)):
            unknown.update(step.outvars)
    return [unknown.isdisjoint(_variables([var])) for var in jaxpr.outvars]


def evaluate(program: ClosedJaxpr, wanted: Sequence[bool], inputs: Sequence[Any]) -> list[Any]:
    """Return the `wanted` outputs, and None for the others; inputs that the wanted ones do not depend on may be None too.

    Args:
        program: A traced program.
        wanted: Whether each output is wanted.
        inputs: Values of the inputs; None for unknown ones.
    """
    jaxpr = program.jaxpr
    outputs = [var for var, is_wanted in zip(jaxpr.outvars, wanted, strict=True) if is_wanted]
    needed, steps = set(_variables(outputs)), []
    for step in reversed(jaxpr.eqns):
        if not needed.isdisjoint(step.outvars):
            steps.append(step)
            needed.update(_variables(step.invars))
    names = jaxpr.debug_info.with_unknown_names()
    reduced = jaxpr.replace(eqns=steps[::-1], outvars=outputs, debug_info=names)
    values = iter(eval_jaxpr(reduced, program.consts, *inputs))
    return [next(values) if is_wanted else None for is_wanted in wanted]


def _variables(atoms: Sequence[Any]) -> list[Var]:
    """Return `atoms` without literals."""
    return [atom for atom in atoms if isinstance(atom, Var)]
