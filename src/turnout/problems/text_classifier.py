"""`TextClassifier`: classes of texts."""

from functools import cache, partial
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from turnout.core.compiling import program
from turnout.core.records import Count, record, static
from turnout.problems.activations import bytes_of_a_row, rows_within
from turnout.problems.base import Precision
from turnout.problems.classifier import Classifier
from turnout.problems.federate import federate_classes
from turnout.problems.language.distilbert import DistilBert, DistilBertConfig
from turnout.problems.language.folders import Pretrained, write_model
from turnout.problems.language.setting import TEXT_CLASSIFIERS, setting_of
from turnout.problems.language.tokens import LENGTH


@record
class TextClassifier(Classifier):
    """Classification of texts: a `Classifier` with logits(a) = x(a), where the parameters x are a network itself.

    The leaves of x have the names of `DistilBertForSequenceClassification` in transformers, so that adapters and files fit both.
    The network is without dropout.

    Args:
        rows: (tokens [rows, t], followed by -1; labels [rows]).
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        mu: Weight of the regulariser (mu/2) |x|^2, >= 0.
        classes: Number of classes.
        config: The numbers of the network.
        places: t, the number of places of a row.
        pretrained: The weights of a folder; None draws them.
        remat: Whether the activations of blocks are computed again for the gradient, in the place of being kept.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> texts = ["the team won again", "shares fell", "the team lost", "shares rose"] * 5
        >>> data = load({"text": texts, "label": ["sports", "business"] * 10})
        >>> split = IidSplit(clients=4).split(data)
        >>> problem = t.TextClassifier.of(data, split, "distilbert", length=8, width=8, layers=1, heads=2)
        >>> trace = t.run(t.FedAvg(t.Full(), lr=0.5, steps=10), problem, rounds=10)
        >>> bool(trace.columns["accuracy"][-1] > 0.99)
        True
    """

    config: DistilBertConfig = static()
    places: Count = static()
    pretrained: Pretrained | None = static(default=None)
    remat: bool = static(default=False)

    precision: ClassVar[Precision] = "single"

    @classmethod
    def of(
        cls,
        dataset,
        split,
        model: str,
        folder: str | Path | None = None,
        tokenizer: str | Path | None = None,
        length: int = LENGTH,
        mu: float = 0.0,
        weights=None,
        classes: int | None = None,
        remat: bool = False,
        **changes: int | None,
    ) -> "TextClassifier":
        """Build the problem of a data set of texts with labels.

        Args:
            dataset: The data set, whose rows are texts.
            split: Which rows each client has.
            model: "distilbert".
            folder: A folder with config.json and model.safetensors, whose head is drawn where it lacks one; None draws
                all weights.
            tokenizer: A folder with tokenizer.json; None for that of `folder`, or the bytes of UTF-8 where there is no folder,
                or one of a model of 256 tokens without this file.
            length: The number of tokens that texts are cut to.
            mu: Weight of the regulariser, >= 0.
            weights: Client weights lambda [n] up to their sum, uniform if None.
            classes: Number of classes, labels being 0, ..., classes - 1; None numbers the labels in increasing order.
            remat: Whether the activations of blocks are computed again for the gradient, in the place of being kept.
            **changes: `width`, `layers`, `heads` and `vocabulary` of a network with drawn weights, the others being those of
                DistilBERT; the vocabulary is the tokenizer's where none is given.

        Raises:
            UserError: The texts, the folders, the labels or the numbers do not fit.
        """
        config, pretrained, tokens, _ = setting_of(TEXT_CLASSIFIERS, model, dataset, split, folder, tokenizer, length, changes)
        parts = federate_classes(dataset, split, weights, classes, tokens)
        return cls(**parts, mu=mu, config=config, places=tokens.shape[1], pretrained=pretrained, remat=remat)

    def logits(self, x, features):
        return x(features, self.remat)

    def start(self, key):
        """Return the network of the folder, whose head is drawn where it lacks one, or one with random weights."""
        drawn = _drawn(self.config, self.classes, key)
        return drawn if self.pretrained is None else self.pretrained.into(drawn, self.config.head)

    def save_pretrained(self, folder: str | Path, x: PyTree) -> None:
        """Write a folder that `DistilBertForSequenceClassification.from_pretrained` of transformers reads.

        Args:
            folder: The folder, which is made where there is none.
            x: The network, such as `trace.x`.

        Raises:
            UserError: x has other leaves, or the folder cannot be written.
        """
        names = None if self.schema is None else self.schema.labels
        like = jax.eval_shape(partial(_drawn, self.config, self.classes), jax.random.key(0))
        write_model(Path(folder), self.config, x, like, range(self.classes) if names is None else names)

    @property
    def activation_bytes(self):
        return _activation_bytes(self.config, self.classes, self.places)

    @property
    def rows_at_once(self):
        return rows_within(self.activation_bytes)


@partial(program, static_argnums=(0, 1))
def _drawn(config: DistilBertConfig, classes: int, key):
    return config.make(key, classes)


@cache
def _activation_bytes(config: DistilBertConfig, classes: int, places: int) -> int:
    """Return how many more bytes the activations of two texts take than those of one."""
    x = jax.eval_shape(partial(_drawn, config, classes), jax.random.key(0))

    def traced(rows: int):
        return jax.make_jaxpr(DistilBert.__call__)(x, jax.ShapeDtypeStruct((rows, places), jnp.int32))

    return bytes_of_a_row(traced)
