"""Losses that are programs of a client's own, written in NumPy or as a PyTorch module."""

from turnout.problems.oracles.base import Oracle as Oracle
from turnout.problems.oracles.numpy_functions import NumpyOracle as NumpyOracle
