"""Compression of exchanges: codecs, their memory, and how the parts of messages and replies are compressed."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
