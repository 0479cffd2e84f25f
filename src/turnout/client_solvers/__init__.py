"""Local solvers: a client minimises its own function plus a linear and a quadratic term."""

from turnout.client_solvers.base import LocalSolver as LocalSolver
from turnout.client_solvers.base import Solution as Solution
from turnout.client_solvers.base import Tilt as Tilt
from turnout.client_solvers.bfgs import Bfgs as Bfgs
from turnout.client_solvers.bfgs import Lbfgs as Lbfgs
from turnout.client_solvers.gradient import Gradient as Gradient
from turnout.client_solvers.newton import NewtonCg as NewtonCg
from turnout.client_solvers.per_class import PerClass as PerClass
from turnout.client_solvers.stochastic import Adam as Adam
from turnout.client_solvers.stochastic import Sgd as Sgd
from turnout.client_solvers.stochastic import Stochastic as Stochastic
from turnout.client_solvers.svrg import Svrg as Svrg
