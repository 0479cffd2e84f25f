"""Algorithms as programs of other packages: a folder for Flower, a job of NVFlare, a function of drjax."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
