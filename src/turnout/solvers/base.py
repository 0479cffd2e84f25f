"""What every cohort solver is: a record that chooses the next point to ask a cohort about."""

from dataclasses import replace
from typing import Any

from jaxtyping import Array, Float

from turnout.errors import UserError
from turnout.records import NonNegative, Positive, record


@record
class CohortSolver:
    """Minimises phi(y) = f_S(y) + |y - x|^2 / (2 gamma) over y [d] from values and gradients, one point an exchange.

    `smoothness` and `convexity` are L and mu of f_S; None takes max_i L_i and min_i mu_i of the problem, which bound them
    for every cohort whose weights sum to one.
    """

    smoothness: Positive | None = None
    convexity: NonNegative | None = None

    def bind(self, problem) -> "CohortSolver":
        """Return this solver with the constants of `problem` where none were given."""
        constants = None if None not in (self.smoothness, self.convexity) else problem.constants()
        if self.smoothness is None and constants is None:
            raise UserError(f"solver {type(self).__name__} needs smoothness: {type(problem).__name__} does not know it")
        smoothness = float(constants.smoothness.max()) if self.smoothness is None else self.smoothness
        if self.convexity is not None:
            return replace(self, smoothness=smoothness)
        return replace(self, smoothness=smoothness, convexity=float(constants.convexity.min()) if constants else 0.0)

    def start(self, x: Float[Array, " d"], convexity) -> Any:
        """Return the first state at x; `convexity` is that of the proximal term, 1 / gamma."""
        raise UserError(f"{type(self).__name__} has no start: write one")

    def query(self, state: Any) -> Float[Array, " d"]:
        """Return the next point to ask about, which is also the best guess of the minimiser so far."""
        raise UserError(f"{type(self).__name__} has no query: write one")

    def update(self, state: Any, value: Float[Array, ""], gradient: Float[Array, " d"]) -> Any:
        """Return the state after phi's `value` and `gradient` at the point asked about."""
        raise UserError(f"{type(self).__name__} has no update: write one")
