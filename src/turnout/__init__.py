"""turnout: federated optimization that counts what communication costs."""

from turnout.algorithms import FedAvg as FedAvg
from turnout.algorithms import MbGd as MbGd
from turnout.algorithms import MbLocalGd as MbLocalGd
from turnout.algorithms import Sppm as Sppm
from turnout.api import Sweep as Sweep
from turnout.api import run as run
from turnout.api import sweep as sweep
from turnout.cohort import Cohort as Cohort
from turnout.errors import UserError as UserError
from turnout.exchange import Algorithm as Algorithm
from turnout.exchange import Ask as Ask
from turnout.exchange import Client as Client
from turnout.exchange import Done as Done
from turnout.exchange import Replies as Replies
from turnout.exchange import on_client as on_client
from turnout.faults import Faults as Faults
from turnout.prices import Bytes as Bytes
from turnout.prices import Hierarchical as Hierarchical
from turnout.prices import Rounds as Rounds
from turnout.prices import Seconds as Seconds
from turnout.prices import Selection as Selection
from turnout.problem import Population as Population
from turnout.problem import Problem as Problem
from turnout.problems import Logistic as Logistic
from turnout.problems import Network as Network
from turnout.problems import Quadratic as Quadratic
from turnout.problems import Ridge as Ridge
from turnout.records import record as record
from turnout.records import static as static
from turnout.samplers import Delegate as Delegate
from turnout.samplers import Full as Full
from turnout.samplers import Independent as Independent
from turnout.samplers import Nice as Nice
from turnout.samplers import Sampler as Sampler
from turnout.samplers import Stratified as Stratified
from turnout.seeds import Seeds as Seeds
from turnout.solvers import AcceleratedGradient as AcceleratedGradient
from turnout.solvers import Bfgs as Bfgs
from turnout.solvers import GradientDescent as GradientDescent
from turnout.target import Target as Target
from turnout.trace import Trace as Trace

__version__ = "0.1.0"
