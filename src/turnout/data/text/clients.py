"""Texts as the data of PyTorch clients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from turnout.core.errors import UserError
from turnout.data.splits import Split
from turnout.data.text.language_models import next_token_loss
from turnout.problems.oracles.torch_module import TorchOracle

LENGTH = 64
"""The number of tokens that texts are cut to."""


class Texts(Dataset):
    """Tokenized texts, with labels or, for language models, without.

    Args:
        tokens: Token ids of each text.
        labels: Labels; None for language models.
    """

    def __init__(self, tokens: list[list[int]], labels: np.ndarray | None):
        self.tokens, self.labels = tokens, labels

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, k: int) -> tuple[list[int], int | None]:
        return self.tokens[k], None if self.labels is None else int(self.labels[k])


def text_clients(
    module: nn.Module,
    tokenizer: Any,
    texts: Sequence[str],
    labels: np.ndarray | None,
    split: Split,
    length: int = LENGTH,
    batch: int = 32,
) -> list[TorchOracle]:
    """Return a `TorchOracle` for each client of a split. The texts are tokenized once; the clients share the module.

    Args:
        module: A text classifier or a language model.
        tokenizer: Its tokenizer.
        texts: The texts.
        labels: The label of each text [rows], 0, 1, ...; None for a language model.
        split: Which texts each client has.
        length: The number of tokens that texts are cut to; a batch is padded to its longest text.
        batch: The number of texts computed at once in passes over all texts of a client.

    Raises:
        UserError: There are not as many labels as texts, a row number is too large, or a text has no tokens.
    """
    if labels is not None and len(labels) != len(texts):
        raise UserError(f"there are {len(texts)} texts but {len(labels)} labels: give one label for each text")
    if split.indices.max() >= len(texts):
        raise UserError(f"the split names row {split.indices.max()}, but there are {len(texts)} texts: split these")
    tokens = tokenized(tokenizer, texts, length)
    empty = [int(k) for k in split.indices if not tokens[k]]
    if empty:
        raise UserError(f"text {empty[0]} has no tokens: leave it out")
    loss, correct = (next_token_loss, None) if labels is None else (cross_entropy, count_correct)

    def client(rows: np.ndarray) -> TorchOracle:
        own = Texts([tokens[k] for k in rows], None if labels is None else np.asarray(labels)[rows])
        return TorchOracle(module, DataLoader(own, batch, collate_fn=padded), loss, correct)

    return [client(split.rows(i)) for i in range(split.clients)]


def tokenized(tokenizer: Any, texts: Sequence[str], length: int) -> list[list[int]]:
    """Return the token ids of each text, cut to `length` tokens.

    Args:
        tokenizer: The tokenizer.
        texts: The texts.
        length: Largest number of tokens.
    """
    return tokenizer(list(texts), truncation=True, max_length=length)["input_ids"]


def padded(rows: list[tuple[list[int], int | None]]) -> Any:
    """Return the token ids [b, T] and the mask of a batch, and its labels [b] if there are any."""
    tokens, labels = zip(*rows, strict=True)
    parts = [torch.tensor(part) for part in tokens]
    mask = pad_sequence([torch.ones_like(part) for part in parts], batch_first=True)
    # Padding is masked, so its token does not matter.
    batch = {"input_ids": pad_sequence(parts, batch_first=True), "attention_mask": mask}
    return batch if labels[0] is None else (batch, torch.tensor(labels))


def cross_entropy(module: nn.Module, batch: tuple[dict[str, Tensor], Tensor]) -> Tensor:
    """Return the mean cross-entropy of a classifier over a batch.

    Args:
        module: The classifier.
        batch: Inputs and labels.
    """
    tokens, labels = batch
    return nn.functional.cross_entropy(module(**tokens), labels)


def count_correct(module: nn.Module, batch: tuple[dict[str, Tensor], Tensor]) -> Tensor:
    """Return how many texts of a batch are classified correctly.

    Args:
        module: The classifier.
        batch: Inputs and labels.
    """
    tokens, labels = batch
    return (module(**tokens).argmax(1) == labels).sum()
