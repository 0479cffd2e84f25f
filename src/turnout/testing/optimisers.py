"""Checks of an optimiser: its steps on a quadratic, and all that an algorithm owes."""

from collections.abc import Callable
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.algorithms import FedOpt
from turnout.optimisers import Optimiser, Sgd
from turnout.problems.base import Precision, Problem
from turnout.runs.setup import scope
from turnout.samplers import Nice
from turnout.testing import algorithms
from turnout.testing.algorithms import first_change
from turnout.testing.case import Case

STEPS = 50
"""Steps on the quadratic."""


class OptimiserCase(Case):
    """An optimiser that clients of FedOpt use, and its steps on a quadratic of its own."""

    def __init__(self, optimiser: Optimiser, problem: Problem):
        sampler = Nice(max(1, problem.clients // 2))
        algorithm = FedOpt(sampler, optimiser=optimiser, server_optimiser=Sgd(lr=1.0), steps=2)
        super().__init__(algorithm, problem, type(optimiser).__name__)
        self.optimiser = optimiser

    @cached_property
    def first(self) -> PyTree:
        """Parameters that are one step length times `STEPS` away from the minimiser 0 in each entry, and at least 1."""
        far = max(1.0, float(self.optimiser.lr) * STEPS)
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, far), self.start)

    @cached_property
    def curvature(self) -> float:
        """c of the quadratic c |x|^2 / 2, which gradient descent with this lr halves the way to 0 on, or 1."""
        return min(1.0, 0.5 / float(self.optimiser.lr))

    def step(self, x: PyTree, state: PyTree) -> tuple[PyTree, PyTree]:
        """Make one step on the quadratic."""
        gradient = jax.tree.map(lambda leaf: self.curvature * leaf, x)
        diagonal = jax.tree.map(lambda leaf: jnp.full_like(leaf, self.curvature), x)
        return self.optimiser.step(x, gradient, state, lambda number: diagonal)

    def steps(self, count: int, x: PyTree, state: PyTree) -> tuple[PyTree, PyTree]:
        """Make `count` steps on the quadratic."""
        step = jax.jit(self.step)
        for _ in range(count):
            x, state = step(x, state)
        return x, state


def steps_keep_their_types(case: OptimiserCase) -> None:
    """A step keeps the shapes and types of the parameters and of its state, in double and in single precision."""
    precisions: tuple[Precision, ...] = ("double", "single")
    for precision in precisions:
        with scope(precision):
            x = jax.tree.map(jnp.asarray, jax.tree.map(np.asarray, case.first))
            state = case.optimiser.start(x)
            new = jax.eval_shape(case.step, x, state)
        for what, old, now in (("parameters", x, new[0]), ("state", state, new[1])):
            change = first_change(jax.eval_shape(lambda tree: tree, old), now)
            if change is not None:
                case.fail(f"changes its {what} in a step, {change}: return arrays of the shape and type that came in")


def quadratic_falls(case: OptimiserCase) -> None:
    """Steps with the exact gradients of c |x|^2 / 2 end at a smaller value than they start from, and stay finite."""
    with scope(case.problem.precision):
        x, _ = case.steps(STEPS, case.first, case.optimiser.start(case.first))
        before, after = (float(sum(jnp.vdot(leaf, leaf) for leaf in jax.tree.leaves(tree))) for tree in (case.first, x))
    if not np.isfinite(after):
        case.fail(f"makes the parameters NaN or infinite in {STEPS} steps on a quadratic: divide by no number that may be 0")
    if not after < before:
        case.fail(f"raises |x|^2 from {before:.4g} to {after:.4g} in {STEPS} steps on c |x|^2 / 2: step against the gradient")


def state_is_arrays(case: OptimiserCase) -> None:
    """The state is a pytree of arrays: written and read back, it leads to the same next step, bit by bit."""
    with scope(case.problem.precision):
        x, state = case.steps(2, case.first, case.optimiser.start(case.first))
        leaves, structure = jax.tree.flatten(state)
        if not all(isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves):
            case.fail("keeps a state that is no pytree of arrays: return arrays in tuples, lists, dicts and records")
        restored = jax.tree.unflatten(structure, [jnp.array(np.asarray(leaf)) for leaf in leaves])
        one, other = case.steps(1, x, state), case.steps(1, x, restored)
    if not all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)):
        case.fail("makes another step from a state that was written and read back: keep all that a step needs in the state")


CHECKS: dict[str, Callable[[OptimiserCase], None]] = {
    "steps_keep_their_types": steps_keep_their_types,
    "quadratic_falls": quadratic_falls,
    "state_is_arrays": state_is_arrays,
    "states_keep_their_types": algorithms.states_keep_their_types,
    "engines_agree": algorithms.engines_agree,
    "compiles_once": algorithms.compiles_once,
    "resumes_to_the_bit": algorithms.resumes_to_the_bit,
    "goes_on_to_the_bit": algorithms.goes_on_to_the_bit,
}
"""The checks of an optimiser by name."""


def case(optimiser: Optimiser, problem: Problem) -> OptimiserCase:
    """Return what the checks of an optimiser are given.

    Args:
        optimiser: The optimiser, with its hyper-parameters.
        problem: A problem with a few clients and unknowns.
    """
    return OptimiserCase(optimiser, problem)
