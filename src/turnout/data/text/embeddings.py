"""Texts as rows of numbers, found once by a frozen encoder and kept on disk."""

import io
import json
from collections.abc import Sequence
from hashlib import file_digest, sha256
from pathlib import Path

import numpy as np
import torch
import transformers

from turnout.core.errors import UserError
from turnout.data.text.classifiers import sentence
from turnout.data.text.clients import LENGTH, padded, tokenized
from turnout.data.text.pretrained import FILES, minilm_folder, read_model, tokenizer_of
from turnout.io.atomic import default_cache, write_cache

BATCH = 64


def embed(
    texts: Sequence[str], folder: str | Path | None = None, length: int = LENGTH, cache: str | Path | None = None
) -> np.ndarray:
    """Return the sentence embeddings [rows, d] of `texts`, each of length 1, in single precision, by MiniLM or that in `folder`.

    Texts are cut to `length` tokens. What was found is kept in the folder `cache`, `~/.cache/turnout` unless given, under the
    hash of texts, weights and length.
    """
    if not texts:
        raise UserError("there are no texts to embed: give at least one")
    folder = minilm_folder() if folder is None else Path(folder)
    kept = (default_cache() if cache is None else Path(cache)) / f"embeddings-{_digest(texts, folder, length)}.npy"
    if kept.is_file():
        try:
            found = np.load(kept, allow_pickle=False)
            if found.ndim == 2 and len(found) == len(texts):
                return found
        except (OSError, ValueError, EOFError):
            pass  # It is found again.
    found = _found(texts, folder, length)
    buffer = io.BytesIO()
    np.save(buffer, found)
    write_cache(kept, buffer.getvalue())
    return found


def _found(texts: Sequence[str], folder: Path, length: int) -> np.ndarray:
    encoder = read_model(transformers.BertModel, folder, "bert", add_pooling_layer=False).eval()
    tokens = tokenized(tokenizer_of(folder), texts, length)
    # Texts of like length together need little padding.
    order = np.argsort([len(part) for part in tokens], kind="stable")
    found = np.empty((len(texts), encoder.config.hidden_size), np.float32)  # type: ignore
    with torch.inference_mode():
        for begin in range(0, len(order), BATCH):
            mine = order[begin : begin + BATCH]
            found[mine] = sentence(encoder, **padded([(tokens[k], None) for k in mine])).numpy()
    return found


def _digest(texts: Sequence[str], folder: Path, length: int) -> str:
    """Return the hash of all that embeddings depend on."""
    total = sha256(json.dumps([length, list(texts)]).encode())
    for name in (*FILES, "config.json", "tokenizer.json", "vocab.txt"):
        if (folder / name).is_file():
            with open(folder / name, "rb") as file:
                total.update(file_digest(file, "sha256").digest())
    return total.hexdigest()[:32]
