"""Estimators of grad f along the iterates of a server, one file per family."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
