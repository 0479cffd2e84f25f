"""`LanguageModel`: the next token of texts."""

from functools import cache, partial
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from turnout.core.compiling import program
from turnout.core.records import Count, record, static
from turnout.problems.activations import bytes_of_a_row, rows_within
from turnout.problems.base import Precision, Problem
from turnout.problems.federate import federate
from turnout.problems.language.folders import Pretrained, write_model
from turnout.problems.language.neox import GptNeoX, NeoXConfig
from turnout.problems.language.setting import LANGUAGE_MODELS, setting_of
from turnout.problems.language.token_losses import next_token_losses
from turnout.problems.language.tokens import LENGTH


@record
class LanguageModel(Problem):
    """f_i(x) = (1/n_i) sum_r -(1/T_r) sum_t log p_x(token t + 1 | tokens 1, ..., t) over n_i texts r of T_r + 1 tokens each.

    x is the network itself; its leaves have the names of `GPTNeoXForCausalLM` in transformers, so that adapters and files fit
    both. Each text has the same weight, however long it is: the metric "perplexity" is exp f(x).

    Args:
        rows: (tokens [rows, t], followed by -1; zeros [rows], since there are no labels).
        offsets: Where each client's rows begin [n + 1].
        population: The clients.
        config: The numbers of the network.
        places: t, the number of places of a row.
        pretrained: The weights of a folder; None draws them.
        remat: Whether the activations of blocks are computed again for the gradient, in the place of being kept.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load({"text": ["the team won again", "shares fell", "the team lost", "shares rose"] * 5, "label": [0] * 20})
        >>> split = IidSplit(clients=4).split(data)
        >>> problem = t.LanguageModel.of(data, split, "gpt-neox", length=16, width=8, layers=1, heads=2)
        >>> trace = t.run(t.FedAvg(t.Nice(2), lr=1.0, steps=5), problem, rounds=10, metrics=("value", "perplexity"))
        >>> bool(trace.columns["perplexity"][-1] < trace.columns["perplexity"][0])
        True
        >>> trace.x.gpt_neox.layers[0].attention.query_key_value.weight.shape
        (24, 8)
    """

    config: NeoXConfig = static()
    places: Count = static()
    pretrained: Pretrained | None = static(default=None)
    remat: bool = static(default=False)

    precision: ClassVar[Precision] = "single"
    has_perplexity: ClassVar[bool] = True

    @classmethod
    def of(
        cls,
        dataset,
        split,
        model: str,
        folder: str | Path | None = None,
        tokenizer: str | Path | None = None,
        length: int = LENGTH,
        weights=None,
        remat: bool = False,
        packed: bool = False,
        **changes: int | None,
    ) -> "LanguageModel":
        """Build the problem of a data set of texts.

        Args:
            dataset: The data set, whose rows are texts; labels have no meaning.
            split: Which rows each client has.
            model: "gpt-neox".
            folder: A folder with config.json and model.safetensors; None draws weights.
            tokenizer: A folder with tokenizer.json; None for that of `folder`, or the bytes of UTF-8 where there is no folder,
                or one of a model of 256 tokens without this file.
            length: The number of tokens that texts are cut to, or of packed rows.
            weights: Client weights lambda [n] up to their sum, uniform if None.
            remat: Whether the activations of blocks are computed again for the gradient, in the place of being kept.
            packed: Whether the whole texts of a client follow one another in rows of `length` tokens, as in pretraining: a row is
                then a text in f_i, and its tokens follow those of other texts in it.
            **changes: `width`, `layers`, `heads` and `vocabulary` of a network with drawn weights, the others being those of
                Pythia-70M; the vocabulary is the tokenizer's where none is given.

        Raises:
            UserError: The texts, the folders or the numbers do not fit.
        """
        config, pretrained, tokens, split = setting_of(
            LANGUAGE_MODELS, model, dataset, split, folder, tokenizer, length, changes, packed
        )
        parts = federate(dataset, split, np.zeros(len(tokens), np.int32), weights, features=tokens)
        return cls(**parts, config=config, places=tokens.shape[1], pretrained=pretrained, remat=remat)

    def losses(self, x, rows):
        tokens, _ = rows
        return next_token_losses(x.states(tokens[:, :-1], self.remat), x.embed_out.weight, tokens[:, 1:])

    def start(self, key):
        """Return the network of the folder, or one with random weights."""
        return _drawn(self.config, key) if self.pretrained is None else self.pretrained.into(self._like)

    def save_pretrained(self, folder: str | Path, x: PyTree) -> None:
        """Write a folder that `GPTNeoXForCausalLM.from_pretrained` of transformers reads: config.json and model.safetensors.

        Args:
            folder: The folder, which is made where there is none.
            x: The network, such as `trace.x`.

        Raises:
            UserError: x has other leaves, or the folder cannot be written.
        """
        write_model(Path(folder), self.config, x, self._like)

    @property
    def activation_bytes(self):
        return _activation_bytes(self.config, self.places)

    @property
    def rows_at_once(self):
        return rows_within(self.activation_bytes)

    @property
    def _like(self) -> GptNeoX:
        return jax.eval_shape(partial(_drawn, self.config), jax.random.key(0))


@partial(program, static_argnums=0)
def _drawn(config: NeoXConfig, key):
    return config.make(key)


@cache
def _activation_bytes(config: NeoXConfig, places: int) -> int:
    """Return how many more bytes the activations of two texts take than those of one, without the logits."""
    x = jax.eval_shape(partial(_drawn, config), jax.random.key(0))

    def traced(rows: int):
        return jax.make_jaxpr(GptNeoX.states)(x, jax.ShapeDtypeStruct((rows, places), jnp.int32))

    return bytes_of_a_row(traced)
