"""Oracles: clients' losses that are not written in JAX, but as NumPy functions or a PyTorch module."""

from turnout.problems.oracles.base import Oracle as Oracle
from turnout.problems.oracles.numpy_functions import NumpyOracle as NumpyOracle
