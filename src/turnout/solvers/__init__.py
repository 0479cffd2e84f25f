"""Cohort solvers: the server minimises a proximal subproblem by exchanges with one cohort."""

from turnout.solvers.base import CohortSolver as CohortSolver
from turnout.solvers.bfgs import Bfgs as Bfgs
from turnout.solvers.bfgs import Lbfgs as Lbfgs
from turnout.solvers.first_order import FirstOrder as FirstOrder
from turnout.solvers.from_algorithm import AsCohortSolver as AsCohortSolver
from turnout.solvers.gradient import AcceleratedGradient as AcceleratedGradient
from turnout.solvers.gradient import GradientDescent as GradientDescent
from turnout.solvers.local import Giant as Giant
from turnout.solvers.local import LocalGd as LocalGd
from turnout.solvers.local import LocalNewton as LocalNewton
from turnout.solvers.newton import Aicn as Aicn
from turnout.solvers.newton import Newton as Newton
from turnout.solvers.nonlinear_cg import ConjugateGradient as ConjugateGradient
from turnout.solvers.scaffnew import Scaffnew as Scaffnew
from turnout.solvers.sketched_newton import SketchedNewton as SketchedNewton
