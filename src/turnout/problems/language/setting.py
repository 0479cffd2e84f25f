"""What the problems of language models have in common: numbers of the model, weights, and rows of tokens."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from turnout.core.errors import UserError, unknown
from turnout.problems.federate import check_data
from turnout.problems.language.distilbert import DistilBertConfig
from turnout.problems.language.folders import Pretrained, read_config
from turnout.problems.language.neox import NeoXConfig
from turnout.problems.language.tokens import Tokenizer, packed_rows, token_rows, tokenizer_of

Config = NeoXConfig | DistilBertConfig

LANGUAGE_MODELS: dict[str, type[NeoXConfig]] = {"gpt-neox": NeoXConfig}
"""Architectures of language models by name."""

TEXT_CLASSIFIERS: dict[str, type[DistilBertConfig]] = {"distilbert": DistilBertConfig}
"""Architectures of text classifiers by name."""

CHANGES = ("width", "layers", "heads", "vocabulary")
"""Numbers of a drawn model that can be given."""


class Setting(NamedTuple):
    """A model and the rows of its texts.

    Args:
        config: The numbers of the model.
        pretrained: Its weights; None where they are drawn.
        tokens: The tokens of the texts [rows, t], client by client.
        split: Which of these rows each client has.
    """

    config: Config
    pretrained: Pretrained | None
    tokens: np.ndarray
    split: Any


def setting_of(
    kinds: dict[str, Any],
    model: str,
    dataset,
    split,
    folder,
    tokenizer,
    length: int,
    changes: dict[str, int | None],
    packed: bool = False,
) -> Setting:
    """Return the model of a problem and the rows of its texts.

    Args:
        kinds: Architectures by name.
        model: The name of one.
        dataset: The data set, whose rows are texts.
        split: Which rows each client has.
        folder: A folder with weights; None draws them.
        tokenizer: A folder with a tokenizer, or None.
        length: The number of tokens that texts are cut to, or of packed rows.
        changes: Numbers of a drawn model.
        packed: Whether the texts of a client follow one another in its rows.

    Raises:
        UserError: One of them does not fit the others.
    """
    check_data(dataset, split)
    if model not in kinds:
        raise unknown("model", model, kinds)
    changes = {name: value for name, value in changes.items() if value is not None}
    place = None if folder is None else Path(folder)
    if place is None:
        words = tokenizer_of(tokenizer)
        config = drawn_config(kinds[model], words, changes)
    else:
        config = folder_config(kinds[model], place, changes)
        words = tokenizer_of(tokenizer, place, config.vocabulary)
    if words.vocabulary > config.vocabulary:
        raise UserError(
            f"the tokenizer has {words.vocabulary} tokens, and the model {config.vocabulary}: give the model's own tokenizer"
            + ("" if place else ", or a larger vocabulary")
        )
    if length > config.max_position_embeddings:
        raise UserError(
            f"a length of {length} tokens is beyond the {config.max_position_embeddings} places of the model: take at most these"
        )
    if dataset.texts is None:
        raise UserError(f"{dataset.name} has no texts: give a table whose only column of features is one of texts")
    texts, offsets = dataset.texts[split.indices].tolist(), split.offsets
    if packed:
        tokens, offsets = packed_rows(words, texts, offsets, length, dataset.name)
    else:
        tokens = token_rows(words, texts, length, dataset.name)
    pretrained = None if place is None else Pretrained.read(place, config.renamed)
    return Setting(config, pretrained, tokens, replace(split, indices=np.arange(len(tokens)), offsets=offsets))


def drawn_config(kind: type, tokenizer: Tokenizer, changes: dict[str, int]) -> Any:
    """Return the numbers of a model with drawn weights.

    Args:
        kind: The class of the numbers.
        tokenizer: The tokenizer, whose tokens are the vocabulary where none is given.
        changes: Numbers that differ from those of the published model.
    """
    for name, value in changes.items():
        if name not in CHANGES:
            raise unknown("number of a model", name, CHANGES)
        if not isinstance(value, int) or value < 1:
            raise UserError(f"{name} of a model is a whole number from 1, but it is {value!r}: give one")
    given = {"vocabulary": tokenizer.vocabulary, **changes}
    if "width" in given:
        given["hidden"] = 4 * given["width"]
    config = replace(kind(), **{kind.numbers[name]: value for name, value in given.items()})
    config.check()
    return config


def folder_config(kind: type, folder: Path, changes: dict[str, int]) -> Any:
    """Return the numbers of the model in a folder; `UserError` where others are given.

    Args:
        kind: The class of the numbers.
        folder: The folder.
        changes: Numbers that were given.
    """
    if changes:
        raise UserError(f"{folder} has the {next(iter(changes))} of its model: leave it out, or the folder")
    return read_config(kind, folder)
