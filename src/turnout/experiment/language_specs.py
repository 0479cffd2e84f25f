"""The `[problem]` tables of texts: language models and text classifiers."""

from dataclasses import field
from pathlib import Path
from typing import ClassVar

from turnout import problems
from turnout.core.records import Count, NonNegative, config
from turnout.data.dataset import Dataset
from turnout.data.splits import Split
from turnout.experiment.problem_specs import DataSpec
from turnout.problems.base import Precision, Problem
from turnout.problems.language.folders import digest_of
from turnout.problems.language.tokens import LENGTH


@config
class TextSpec(DataSpec):
    """A problem on texts.

    Args:
        model: The architecture.
        folder: A folder with weights; None draws them.
        tokenizer: A folder with a tokenizer; None for that of `folder`, or bytes.
        length: The number of tokens that texts are cut to.
        width: Numbers of a token of a drawn network.
        layers: Blocks of a drawn network.
        heads: Heads of its blocks.
        vocabulary: Its number of tokens.
        remat: Whether the activations of blocks are computed again for the gradient.
    """

    model: str = field(kw_only=True)
    folder: str | None = None
    tokenizer: str | None = None
    length: Count = LENGTH
    width: Count | None = None
    layers: Count | None = None
    heads: Count | None = None
    vocabulary: Count | None = None
    remat: bool = False

    precision: ClassVar[Precision] = "single"

    @property
    def digest(self) -> str:
        """A digest of the files in `folder`."""
        return "" if self.folder is None else digest_of(Path(self.folder))

    @property
    def options(self) -> dict:
        """The arguments of the problem."""
        names = ("model", "folder", "tokenizer", "length", "width", "layers", "heads", "vocabulary", "remat")
        return {name: getattr(self, name) for name in names}


@config
class LanguageModelSpec(TextSpec):
    """A language model: see `problems.LanguageModel.of`.

    Args:
        packed: Whether the texts of a client follow one another in its rows.
    """

    packed: bool = False

    @property
    def numbers_labels(self) -> bool:
        return False

    def build(self, dataset: Dataset, split: Split) -> Problem:
        weights = self.client_weights(split)
        return problems.LanguageModel.of(dataset, split, weights=weights, packed=self.packed, **self.options)


@config
class TextClassifierSpec(TextSpec):
    """A classifier of texts: see `problems.TextClassifier.of`."""

    mu: NonNegative = 0.0
    classes: Count | None = None

    @property
    def numbers_labels(self) -> bool:
        return self.classes is None

    def build(self, dataset: Dataset, split: Split) -> Problem:
        further = {"mu": self.mu, "weights": self.client_weights(split), "classes": self.classes}
        return problems.TextClassifier.of(dataset, split, **self.options, **further)
