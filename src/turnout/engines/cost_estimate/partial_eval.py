"""Which results of a traced program depend on unknown inputs, and the program without these results."""

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Var
from jaxtyping import PyTree

BARRIER = "optimization_barrier"

CALLS = ("jit", "pjit")
"""How JAX calls a call of a compiled function."""


def as_unknown(tree: PyTree) -> PyTree:
    """Return `tree` unchanged, but such that `known` counts it as unknown."""
    return lax.optimization_barrier(tree)


def inlined(program: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program with the compiled functions that it calls written out, so that each of their results is seen by itself.

    Args:
        program: A traced program.
    """
    if not any(step.primitive.name in CALLS for step in program.jaxpr.eqns):
        return program
    # In 64 bits JAX keeps the types that were traced, those of draws included.
    with jax.enable_x64(True):
        return jax.make_jaxpr(lambda *inputs: _played(program, inputs))(*program.in_avals)


def _played(program: ClosedJaxpr, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a program, tracing into the compiled functions that it calls."""
    jaxpr = program.jaxpr
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*program.consts, *inputs), strict=True))

    def read(atom):
        return values[atom] if isinstance(atom, Var) else atom.val

    for step in jaxpr.eqns:
        given = [read(atom) for atom in step.invars]
        if step.primitive.name in CALLS:
            results = _played(step.params["jaxpr"], given)
        else:
            # Before 0.10 JAX returns functions too.
            bound = step.primitive.get_bind_params(step.params)
            functions, parameters = bound if isinstance(bound, tuple) else ((), bound)
            results = step.primitive.bind(*functions, *given, **parameters)
            results = results if step.primitive.multiple_results else [results]
        values.update(zip(step.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


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
