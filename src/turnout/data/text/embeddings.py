"""Sentence embeddings of texts by a frozen encoder, which are kept."""

import json
from collections.abc import Sequence
from hashlib import file_digest, sha256
from pathlib import Path

import numpy as np
import torch
import transformers

from turnout.core.errors import UserError
from turnout.core.kept import kept
from turnout.data.text.classifiers import sentence
from turnout.data.text.clients import LENGTH, padded, tokenized
from turnout.data.text.pretrained import FILES, minilm_folder, read_model, tokenizer_of

BATCH = 64


def embed(texts: Sequence[str], folder: str | Path | None = None, length: int = LENGTH) -> np.ndarray:
    """Return the sentence embeddings of texts, kept by the hash of texts, weights and length: see `set_cache`.

    Args:
        texts: The texts.
        folder: A folder with the encoder's weights; None takes MiniLM.
        length: The number of tokens that texts are cut to.

    Returns:
        The embeddings [rows, d] in single precision, each of length 1.

    Raises:
        UserError: There are no texts, or the encoder cannot be read.
    """
    if not texts:
        raise UserError("there are no texts to embed: give at least one")
    folder = minilm_folder() if folder is None else Path(folder)
    parts = (_digest(texts, folder, length),)
    (embeddings,) = kept("embeddings", parts, ("torch", "transformers"), lambda: [_compute(texts, folder, length)])
    return embeddings


def _compute(texts: Sequence[str], folder: Path, length: int) -> np.ndarray:
    encoder = read_model(transformers.BertModel, folder, "bert", add_pooling_layer=False).eval()
    tokens = tokenized(tokenizer_of(folder), texts, length)
    # Batches of texts of similar length need little padding.
    order = np.argsort([len(part) for part in tokens], kind="stable")
    embeddings = np.empty((len(texts), encoder.config.hidden_size), np.float32)  # type: ignore
    with torch.inference_mode():
        for begin in range(0, len(order), BATCH):
            rows = order[begin : begin + BATCH]
            embeddings[rows] = sentence(encoder, **padded([(tokens[k], None) for k in rows])).numpy()
    return embeddings


def _digest(texts: Sequence[str], folder: Path, length: int) -> str:
    """Return the hash of everything that the embeddings depend on."""
    total = sha256(json.dumps([length, list(texts)]).encode())
    for name in (*FILES, "config.json", "tokenizer.json", "vocab.txt"):
        if (folder / name).is_file():
            with open(folder / name, "rb") as file:
                total.update(file_digest(file, "sha256").digest())
    return total.hexdigest()[:32]
