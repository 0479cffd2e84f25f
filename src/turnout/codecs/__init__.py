"""Compression of exchanges: codecs, their memory, and how the parts of messages and replies are compressed."""

from turnout.codecs.base import Codec, Identity
from turnout.codecs.casts import Cast
from turnout.codecs.exchange import Exchange
from turnout.codecs.low_rank import LowRank
from turnout.codecs.quantisation import Natural, Qsgd, Sign
from turnout.codecs.sparsification import RandK, TopK

__all__ = ["Cast", "Codec", "Exchange", "Identity", "LowRank", "Natural", "Qsgd", "RandK", "Sign", "TopK"]
