"""Losses that are programs of a client's own, written in NumPy or as a PyTorch module."""

from turnout.oracles.base import Oracle as Oracle
from turnout.oracles.functions import NumpyOracle as NumpyOracle
