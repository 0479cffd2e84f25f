"""What a declaration of a test vector has, and what many share."""

from collections.abc import Callable
from typing import NamedTuple

COHORTS = [[2, 3], [0, 2], [1, 3]]
EVERYONE = [[0, 1, 2, 3]] * 3
ARRIVALS = [[[0, 0], [2, 1]], [[3, 1], [0, 2]], [[2, 2], [1, 3]]]
ONE_BY_ONE = [[[0, 0]], [[1, 0]], [[2, 1]]]
BATCHES = [
    {"2": [[0], [0]], "3": [[1, 3], [2, 0]]},
    {"0": [[1], [0]], "2": [[0], [0]]},
    {"1": [[0, 2], [1]], "3": [[2, 1], [0, 3]]},
]
"""Rows of each client's local steps, by round."""


L2GD = {"local_steps": [1, 2, 1], "pulls": [0, 1, 3]}
"""Numbers of steps of each kind."""


class Case(NamedTuple):
    """One test vector.

    `status` is "paper" (what the paper's algorithm says), "open" (one of the choices that the paper leaves open or that
    practice makes) or "deviation" (what some programs do and the paper does not).
    """

    name: str
    kind: str
    program: Callable
    parameters: dict
    source: str
    variant: str
    update: list[str]
    status: str = "paper"
    weights: str = "equal"
    loss: str = "squared"
    cohorts: list = COHORTS
    given: dict = {}
    constant: bool = False


LOCAL = "for i in S: y_i = x; repeat local_steps times: y_i <- y_i - lr grad f_i(y_i)"
ROUND = {"lr": 0.2, "local_steps": 2}
