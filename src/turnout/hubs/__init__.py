"""Hubs between the server and the clients: who is connected to which, and what passes each link."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
