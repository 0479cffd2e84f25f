"""How a cohort solves a proximal subproblem: each step is one exchange, or more and then counted so."""

from turnout.solvers.base import CohortSolver as CohortSolver
from turnout.solvers.bfgs import Bfgs as Bfgs
from turnout.solvers.bfgs import Lbfgs as Lbfgs
from turnout.solvers.first_order import Descent as Descent
from turnout.solvers.gradient import AcceleratedGradient as AcceleratedGradient
from turnout.solvers.gradient import GradientDescent as GradientDescent
from turnout.solvers.local import LocalGd as LocalGd
from turnout.solvers.local import LocalNewton as LocalNewton
from turnout.solvers.newton import Aicn as Aicn
from turnout.solvers.newton import Newton as Newton
from turnout.solvers.nonlinear_cg import ConjugateGradient as ConjugateGradient
from turnout.solvers.scaffnew import Scaffnew as Scaffnew
from turnout.solvers.sketched_newton import Sketch as Sketch
from turnout.solvers.training import FedLamb as FedLamb
from turnout.solvers.training import FedOpt as FedOpt
from turnout.solvers.training import FedSpeed as FedSpeed
from turnout.solvers.training import Mime as Mime
from turnout.solvers.training import MimeLite as MimeLite
