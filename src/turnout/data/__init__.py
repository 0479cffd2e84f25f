"""Data sets, readers of data files, and splits of rows into clients."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
