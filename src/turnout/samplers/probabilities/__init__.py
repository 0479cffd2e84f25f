"""Probability rules: how likely each client is to be drawn, fixed before a run or learned from feedback."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
