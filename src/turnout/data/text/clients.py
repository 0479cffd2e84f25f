"""Texts dealt out to PyTorch clients."""

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
"""Tokens that a text is cut to."""


class Texts(Dataset):
    """Texts as lists of token numbers, with their labels or, for language models, without."""

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
    """Return a `TorchOracle` for each client of `split`, with its own texts, tokenized once; all share `module`.

    A classifier learns `labels` [rows] of 0, 1, ...; a language model has None there. Texts are cut to `length` tokens and padded
    to the longest of their batch; where all rows are passed over, it is `batch` at a time.
    """
    if labels is not None and len(labels) != len(texts):
        raise UserError(f"there are {len(texts)} texts but {len(labels)} labels: give one label for each text")
    if split.indices.max() >= len(texts):
        raise UserError(f"the split names row {split.indices.max()}, but there are {len(texts)} texts: split these")
    tokens = tokenized(tokenizer, texts, length)
    empty = [int(k) for k in split.indices if not tokens[k]]
    if empty:
        raise UserError(f"text {empty[0]} has no tokens: leave it out")
    loss, right = (next_token_loss, None) if labels is None else (cross_entropy, count_right)

    def client(rows: np.ndarray) -> TorchOracle:
        mine = Texts([tokens[k] for k in rows], None if labels is None else np.asarray(labels)[rows])
        return TorchOracle(module, DataLoader(mine, batch, collate_fn=padded), loss, right)

    return [client(split.rows(i)) for i in range(split.clients)]


def tokenized(tokenizer: Any, texts: Sequence[str], length: int) -> list[list[int]]:
    """Return the token numbers of each text, cut to `length`."""
    return tokenizer(list(texts), truncation=True, max_length=length)["input_ids"]


def padded(rows: list[tuple[list[int], int | None]]) -> Any:
    """Return tokens [b, T] and their mask, and labels [b] where there are any."""
    tokens, labels = zip(*rows, strict=True)
    parts = [torch.tensor(part) for part in tokens]
    mask = pad_sequence([torch.ones_like(part) for part in parts], batch_first=True)
    # Which token fills up is of no matter: it is masked.
    batch = {"input_ids": pad_sequence(parts, batch_first=True), "attention_mask": mask}
    return batch if labels[0] is None else (batch, torch.tensor(labels))


def cross_entropy(module: nn.Module, batch: tuple[dict[str, Tensor], Tensor]) -> Tensor:
    """Return the mean cross-entropy of a classifier over a batch."""
    tokens, labels = batch
    return nn.functional.cross_entropy(module(**tokens), labels)


def count_right(module: nn.Module, batch: tuple[dict[str, Tensor], Tensor]) -> Tensor:
    """Return how many texts of a batch are classified rightly."""
    tokens, labels = batch
    return (module(**tokens).argmax(1) == labels).sum()
