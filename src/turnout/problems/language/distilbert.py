"""DistilBERT with its head for sequences."""

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from turnout.problems.language.layers import Dense, Embedding, activation, applied, attention
from turnout.problems.language.layers import LayerNorm as Norm
from turnout.problems.language.neox import divided

EPSILON = 1e-12
"""What is added to variances."""


@dataclass(frozen=True)
class DistilBertConfig:
    """The numbers of a DistilBERT, by their names in a config.json; the defaults are those of Sanh et al. (2019).

    Args:
        vocab_size: V, the number of tokens.
        dim: Numbers of a token.
        n_layers: The number of blocks.
        n_heads: Heads of a block.
        hidden_dim: Hidden numbers of a block's two-layer network.
        max_position_embeddings: The largest number of tokens of a text.
        activation: The activation.
        initializer_range: Standard deviation of drawn weights.
    """

    vocab_size: int = 30522
    dim: int = 768
    n_layers: int = 6
    n_heads: int = 12
    hidden_dim: int = 3072
    max_position_embeddings: int = 512
    activation: str = "gelu"
    initializer_range: float = 0.02

    model_type: ClassVar[str] = "distilbert"
    architecture: ClassVar[str] = "DistilBertForSequenceClassification"
    head: ClassVar[tuple[str, ...]] = ("pre_classifier", "classifier")
    renamed: ClassVar[dict[str, str]] = {}
    numbers: ClassVar[dict[str, str]] = {
        "width": "dim",
        "layers": "n_layers",
        "heads": "n_heads",
        "vocabulary": "vocab_size",
        "hidden": "hidden_dim",
    }

    @classmethod
    def read(cls, entries: dict[str, Any]) -> dict[str, Any]:
        """Return the entries of a config.json as older versions of transformers write them.

        Args:
            entries: The entries.
        """
        return entries

    def written(self) -> dict[str, Any]:
        """Return further entries of a config.json."""
        return {}

    def check(self) -> None:
        """Raise `UserError` where a number does not fit the others."""
        divided(self.dim, self.n_heads)
        activation(self.activation)

    def make(self, key: PRNGKeyArray, outputs: int) -> "DistilBert":
        """Return a network with random weights.

        Args:
            key: Random key.
            outputs: The number of classes.
        """
        return DistilBert(self, outputs, key)

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return self.vocab_size


class DistilBert(eqx.Module):
    """A classifier of texts: logits [b, classes] = V relu(U h_1 + d) + c, with the last state h_1 of the first token.

    It is without dropout.

    Args:
        config: Its numbers.
        classes: The number of classes.
        key: Random key of the weights.
    """

    distilbert: "Encoder"
    pre_classifier: Dense
    classifier: Dense

    def __init__(self, config: DistilBertConfig, classes: int, key: PRNGKeyArray):
        first, second, third = jax.random.split(key, 3)
        self.distilbert = Encoder(config, first)
        self.pre_classifier = Dense(config.dim, config.dim, config.initializer_range, second)
        self.classifier = Dense(config.dim, classes, config.initializer_range, third)

    def __call__(self, tokens: Int[Array, "b t"], remat: bool = False) -> Float[Array, "b classes"]:
        """Return the logits of texts.

        Args:
            tokens: The tokens; any number below 0 is padding, which follows a text.
            remat: Whether the activations of blocks are computed again for the gradient.
        """
        state = self.distilbert(jnp.maximum(tokens, 0), tokens >= 0, remat)[:, 0]
        return self.classifier(jax.nn.relu(self.pre_classifier(state)))


class Encoder(eqx.Module):
    """Embeddings and blocks.

    Args:
        config: Its numbers.
        key: Random key of the weights.
    """

    embeddings: "Embeddings"
    transformer: "Blocks"

    def __init__(self, config: DistilBertConfig, key: PRNGKeyArray):
        first, second = jax.random.split(key)
        self.embeddings, self.transformer = Embeddings(config, first), Blocks(config, second)

    def __call__(self, tokens: Int[Array, "b t"], mask: Bool[Array, "b t"], remat: bool) -> Float[Array, "b t width"]:
        h = self.embeddings(tokens)
        for block in self.transformer.layer:
            h = applied(lambda h, block=block: block(h, mask), h, remat)
        return h


class Embeddings(eqx.Module):
    """norm(E token + P place).

    Args:
        config: Its numbers.
        key: Random key of the weights.
    """

    word_embeddings: Embedding
    position_embeddings: Embedding
    LayerNorm: Norm

    def __init__(self, config: DistilBertConfig, key: PRNGKeyArray):
        (first, second), deviation = jax.random.split(key), config.initializer_range
        self.word_embeddings = Embedding(config.vocab_size, config.dim, deviation, first)
        self.position_embeddings = Embedding(config.max_position_embeddings, config.dim, deviation, second)
        self.LayerNorm = Norm(config.dim, EPSILON)

    def __call__(self, tokens: Int[Array, "b t"]) -> Float[Array, "b t width"]:
        places = self.position_embeddings.weight[: tokens.shape[1]]
        return self.LayerNorm(self.word_embeddings(tokens) + places[None])


class Blocks(eqx.Module):
    """The blocks.

    Args:
        config: Their numbers.
        key: Random key of the weights.
    """

    layer: list["Block"]

    def __init__(self, config: DistilBertConfig, key: PRNGKeyArray):
        self.layer = [Block(config, key) for key in jax.random.split(key, config.n_layers)]


class Block(eqx.Module):
    """norm'(a + network(a)) with a = norm(h + attention(h)).

    Args:
        config: Its numbers.
        key: Random key of the weights.
    """

    attention: "Attention"
    sa_layer_norm: Norm
    ffn: "Network"
    output_layer_norm: Norm

    def __init__(self, config: DistilBertConfig, key: PRNGKeyArray):
        first, second = jax.random.split(key)
        self.attention, self.ffn = Attention(config, first), Network(config, second)
        self.sa_layer_norm, self.output_layer_norm = Norm(config.dim, EPSILON), Norm(config.dim, EPSILON)

    def __call__(self, h: Float[Array, "b t width"], mask: Bool[Array, "b t"]) -> Float[Array, "b t width"]:
        attended = self.sa_layer_norm(h + self.attention(h, mask))
        return self.output_layer_norm(attended + self.ffn(attended))


class Attention(eqx.Module):
    """Attention to all tokens of the text.

    Args:
        config: Its numbers.
        key: Random key of the weights.
    """

    q_lin: Dense
    k_lin: Dense
    v_lin: Dense
    out_lin: Dense
    heads: int = eqx.field(static=True)

    def __init__(self, config: DistilBertConfig, key: PRNGKeyArray):
        keys = jax.random.split(key, 4)
        layers = (Dense(config.dim, config.dim, config.initializer_range, key) for key in keys)
        self.q_lin, self.k_lin, self.v_lin, self.out_lin = layers
        self.heads = config.n_heads

    def __call__(self, h: Float[Array, "b t width"], mask: Bool[Array, "b t"]) -> Float[Array, "b t width"]:
        parts = (layer(h).reshape(*h.shape[:2], self.heads, -1) for layer in (self.q_lin, self.k_lin, self.v_lin))
        return self.out_lin(attention(*parts, mask))


class Network(eqx.Module):
    """Two layers with an activation between.

    Args:
        config: Its numbers.
        key: Random key of the weights.
    """

    lin1: Dense
    lin2: Dense
    act: str = eqx.field(static=True)

    def __init__(self, config: DistilBertConfig, key: PRNGKeyArray):
        (first, second), deviation = jax.random.split(key), config.initializer_range
        self.lin1, self.lin2 = (
            Dense(config.dim, config.hidden_dim, deviation, first),
            Dense(config.hidden_dim, config.dim, deviation, second),
        )
        self.act = config.activation

    def __call__(self, h: Float[Array, "b t width"]) -> Float[Array, "b t width"]:
        return self.lin2(activation(self.act)(self.lin1(h)))
