"""Problems to minimise, f(x) = sum_i lambda_i f_i(x)."""

from turnout.problems.chain import Chain as Chain
from turnout.problems.log_sum import LogSum as LogSum
from turnout.problems.logistic import Logistic as Logistic
from turnout.problems.logistic import NonconvexLogistic as NonconvexLogistic
from turnout.problems.multinomial import Multinomial as Multinomial
from turnout.problems.neural import Neural as Neural
from turnout.problems.quadratic import Quadratic as Quadratic
from turnout.problems.remote import Remote as Remote
from turnout.problems.ridge import Ridge as Ridge
from turnout.problems.two_layer import Network as Network
