"""Which results of a program depend on an input."""

from jax.extend.core import ClosedJaxpr, Var


def depends_on_last(program: ClosedJaxpr) -> bool:
    """Return whether a result of a program can depend on its last input."""
    reached = {program.jaxpr.invars[-1]}
    for step in program.jaxpr.eqns:
        if any(isinstance(value, Var) and value in reached for value in step.invars):
            reached |= {*step.outvars}
    return any(isinstance(value, Var) and value in reached for value in program.jaxpr.outvars)
