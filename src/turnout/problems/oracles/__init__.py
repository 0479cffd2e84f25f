"""Oracles: clients' losses that are not written in JAX, but as NumPy functions or a PyTorch module."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
