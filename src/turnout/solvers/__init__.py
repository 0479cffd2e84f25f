"""How a cohort solves a proximal subproblem, one exchange a step."""

from turnout.solvers.base import CohortSolver as CohortSolver
from turnout.solvers.bfgs import Bfgs as Bfgs
from turnout.solvers.gradient import AcceleratedGradient as AcceleratedGradient
from turnout.solvers.gradient import GradientDescent as GradientDescent
