"""Devices of clients: how long their queries and messages take, from which the clock of a run follows."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
