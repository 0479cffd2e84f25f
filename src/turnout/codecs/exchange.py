"""How the messages and replies of a run are compressed: a codec for each direction, and the memory of what they lose."""

from typing import Literal

from turnout.codecs.base import Codec
from turnout.core.errors import UserError
from turnout.core.records import record, static

Feedback = Literal["none", "ef14", "ef21", "diana"]

AT_BOTH_ENDS = ("ef21", "diana")
"""Those that the receiver remembers too."""


@record
class Exchange:
    """Compression of messages (`down`) and replies (`up`), with what is done about the error.

    The receiver reads, in the place of m, what the sender's codec C leaves of it:

    - "none": C(m).
    - "ef14": C(m + e), and the sender's e <- m + e - C(m + e) is 0 at first (error feedback, Seide et al., 2014).
    - "ef21": h <- h + C(m - h), at both ends (Richtarik et al., 2021, Algorithm 1); h is 0 at first, or the initial parameters
      for the first part of a message that is shaped like these.
    - "diana": h + C(m - h), and then h <- h + C(m - h) / (1 + omega), at both ends (Mishchenko et al., 2019, Algorithm 1); if C
      is unbiased, so is what is read.

    With "ef14" and "ef21" an unbiased codec is divided by 1 + omega. Memory belongs to one client and one local method: e and h
    of replies are part of the client's private state and, as h of its messages, change only when its reply is used. So "ef21"
    and "diana" take a copy of what each client was sent and replied at the server. Arrays of floating-point numbers are
    compressed; whole numbers and
    single numbers travel as they are, and so do the questions of samplers.

    Args:
        up: Codec of replies; None for none.
        down: Codec of messages; None for none.
        feedback: The memory of both.
        by: Whether the codecs are applied to each array ("leaf") or to all arrays as one ("whole").

    Raises:
        UserError: Without a codec.

    Examples:
        >>> import turnout as t
        >>> algorithm, exchange = t.MbGd(t.Full(), lr=0.1), t.Exchange(up=t.codecs.TopK(count=1), feedback="ef21")
        >>> trace = t.run(algorithm, t.Quadratic.random(12, 5), rounds=10, exchange=exchange)
        >>> trace.ledger.totals()["bytes_up"], 12 * 10 * (8 + 1)
        (1080, 1080)
    """

    example = "t.Exchange(up=t.codecs.TopK(fraction=0.1))"

    up: Codec | None = static(default=None)
    down: Codec | None = static(default=None)
    feedback: Feedback = static(default="none", kw_only=True)
    by: Literal["leaf", "whole"] = static(default="leaf", kw_only=True)

    def __post_init__(self):
        if self.up is None and self.down is None:
            raise UserError("an exchange without a codec compresses nothing: give up or down, such as {kind = 'top-k'}")
