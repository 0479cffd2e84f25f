"""Runs: options, setup, the loop over chunks of rounds, and traces."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
