"""Texts as rows of tokens."""

from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from turnout.core.errors import UserError

TOKENIZER = "tokenizer.json"

PADDING = -1
"""The number in the places after a text."""

END = "<|endoftext|>"
"""The token between two texts, where a vocabulary has it."""

LENGTH = 64
"""The number of tokens that texts are cut to."""

LONGEST = 2**31 - 1
"""The most tokens of a text that is not cut."""


@runtime_checkable
class Tokenizer(Protocol):
    """Turns texts into numbers."""

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        ...

    @property
    def end(self) -> int | None:
        """The token between two texts; None without one."""
        ...

    def tokens(self, texts: Sequence[str], length: int) -> list[list[int]]:
        """Return the tokens of each text, cut to a length.

        Args:
            texts: The texts.
            length: The most tokens of a text.
        """
        ...


class Utf8:
    """The bytes of a text in UTF-8 are its tokens (Xue et al., ByT5, 2022), and the byte 0 is between two texts."""

    vocabulary, end = 256, 0

    def tokens(self, texts: Sequence[str], length: int) -> list[list[int]]:
        """Return the first bytes of each text.

        Args:
            texts: The texts.
            length: The most bytes of a text.
        """
        return [list(text.encode()[:length]) for text in texts]


class FileTokenizer:
    """The tokenizer of a folder.

    Args:
        folder: A folder with a tokenizer.json.

    Raises:
        UserError: There is no such file, it cannot be read, or the library tokenizers is not installed.
    """

    def __init__(self, folder: Path):
        file = folder / TOKENIZER
        if not file.is_file():
            raise UserError(f"{folder} has no {TOKENIZER}: give a folder with one as the tokenizer")
        try:
            import tokenizers
        except ImportError as error:
            raise UserError(f"tokenizers of folders need tokenizers ({error}): pip install 'turnout[text]'") from None
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # The library raises no narrower class.
            raise UserError(f"{file}: no tokenizer can be read ({str(error).partition(chr(10))[0]}): copy the file") from None
        self._tokenizer.no_padding()
        self.vocabulary = max(self._tokenizer.get_vocab(with_added_tokens=True).values()) + 1
        self.end = self._tokenizer.token_to_id(END)

    def tokens(self, texts: Sequence[str], length: int) -> list[list[int]]:
        """Return the tokens of each text, with those that the tokenizer adds, cut to a length.

        Args:
            texts: The texts.
            length: The most tokens of a text.
        """
        self._tokenizer.enable_truncation(length)
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]


def tokenizer_of(tokenizer: str | Path | None, folder: Path | None = None, vocabulary: int = 0) -> Tokenizer:
    """Return a tokenizer; by default that of the model, or bytes where there is no folder, or one of a model of bytes without it.

    Args:
        tokenizer: Its folder; None for the default.
        folder: The folder of the model, or None.
        vocabulary: The number of tokens of that model.
    """
    place = folder if tokenizer is None else Path(tokenizer)
    learnt_bytes = tokenizer is None and vocabulary == Utf8.vocabulary
    if place is None or (learnt_bytes and not (place / TOKENIZER).exists()):
        return Utf8()
    return FileTokenizer(place)


def token_rows(tokenizer: Tokenizer, texts: Sequence[str], length: int, name: str) -> Int[np.ndarray, "rows t"]:
    """Return the tokens of each text, followed by `PADDING` up to the length of the longest.

    Args:
        tokenizer: The tokenizer.
        texts: The texts.
        length: The most tokens of a text.
        name: What the texts are of, for messages.

    Raises:
        UserError: A text has no tokens.
    """
    return _padded(_tokens(tokenizer, texts, length, name))


def packed_rows(
    tokenizer: Tokenizer, texts: Sequence[str], offsets: Int[np.ndarray, " bounds"], length: int, name: str
) -> tuple[Int[np.ndarray, "rows t"], Int[np.ndarray, " bounds"]]:
    """Return the whole texts of each client, one after another, as rows of `length` tokens, and where each client's rows begin.

    The tokenizer's end token, if it has one, follows each text. The last row of a client is shorter, followed by `PADDING`;
    a last row of one token, in which there is nothing to predict, is left out unless it is the only one.

    Args:
        tokenizer: The tokenizer.
        texts: The texts, client by client.
        offsets: Where each client's texts begin.
        length: The tokens of a row.
        name: What the texts are of, for messages.

    Raises:
        UserError: A text has no tokens.
    """
    end = [] if tokenizer.end is None else [tokenizer.end]
    tokens = [[*part, *end] for part in _tokens(tokenizer, texts, LONGEST, name)]
    rows = []
    for first, last in pairwise(offsets):
        stream = [*chain.from_iterable(tokens[first:last])]
        rows.append([stream[k : k + length] for k in range(0, len(stream), length) if k == 0 or k + 1 < len(stream)])
    return _padded([*chain.from_iterable(rows)]), np.cumsum([0, *map(len, rows)])


def _tokens(tokenizer: Tokenizer, texts: Sequence[str], length: int, name: str) -> list[list[int]]:
    """Return the tokens of each text; `UserError` where one has none."""
    # Tokenizers that add tokens give an empty text some.
    empty = [number for number, text in enumerate(texts) if not text.strip()]
    tokens = tokenizer.tokens(texts, length)
    empty += [number for number, part in enumerate(tokens) if not part]
    if empty:
        raise UserError(f"a text of {name} has no tokens ({texts[empty[0]]!r}): leave its row out")
    return tokens


def _padded(tokens: list[list[int]]) -> Int[np.ndarray, "rows t"]:
    """Return tokens as rows, with `PADDING` up to the length of the longest."""
    rows = np.full((len(tokens), max(map(len, tokens))), PADDING, np.int32)
    for row, part in zip(rows, tokens, strict=True):
        row[: len(part)] = part
    return rows
