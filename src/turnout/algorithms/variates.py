"""Control variates: what algorithms share whose clients keep a vector each, and whose server keeps their mean."""

from typing import NamedTuple

from jaxtyping import PyTree

from turnout.core.algorithm import Algorithm
from turnout.core.tree import zeros


class Server(NamedTuple):
    """The parameters x, and `variate` = sum_i lambda_i c_i of the clients' variates c_i."""

    x: PyTree
    variate: PyTree


class ControlVariates(Algorithm):
    """Every client keeps c_i, like the parameters, and the server x and sum_i lambda_i c_i; all variates are 0 at first."""

    def start(self, ask, x):
        return Server(x, zeros(x))

    def client_state(self, x):
        return zeros(x)

    def output(self, server):
        return server.x
