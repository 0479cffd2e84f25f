"""How a client solves a problem of its own: its function, tilted and drawn towards a centre."""

from turnout.solvers.own.base import LocalSolver as LocalSolver
from turnout.solvers.own.base import Solved as Solved
from turnout.solvers.own.base import Tilt as Tilt
from turnout.solvers.own.gradient import Gradient as Gradient
from turnout.solvers.own.mixed import PerClass as PerClass
from turnout.solvers.own.newton import NewtonCg as NewtonCg
from turnout.solvers.own.quasi import Bfgs as Bfgs
from turnout.solvers.own.quasi import Lbfgs as Lbfgs
from turnout.solvers.own.stochastic import Adam as Adam
from turnout.solvers.own.stochastic import Sgd as Sgd
from turnout.solvers.own.stochastic import Stochastic as Stochastic
from turnout.solvers.own.svrg import Svrg as Svrg
