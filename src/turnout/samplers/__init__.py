"""Samplers: how the participating clients of a round are drawn. `turnout.samplers.base` describes the protocol."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
