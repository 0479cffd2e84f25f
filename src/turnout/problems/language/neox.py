"""GPT-NeoX, the architecture of Pythia."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from turnout.core.errors import UserError
from turnout.problems.language.layers import Dense, Embedding, LayerNorm, activation, applied, attention


@dataclass(frozen=True)
class NeoXConfig:
    """The numbers of a GPT-NeoX, by their names in a config.json; the defaults are those of Pythia-70M (Biderman et al., 2023).

    Args:
        vocab_size: V, the number of tokens.
        hidden_size: Numbers of a token.
        num_hidden_layers: The number of blocks.
        num_attention_heads: Heads of a block.
        intermediate_size: Hidden numbers of a block's two-layer network.
        max_position_embeddings: The largest number of tokens of a text.
        rotary_pct: The share of the numbers of each head that are rotated.
        rotary_emb_base: The base of the rotations' frequencies.
        layer_norm_eps: What is added to variances.
        use_parallel_residual: Whether a block adds attention and network of the same h.
        hidden_act: The activation.
        initializer_range: Standard deviation of drawn weights.
    """

    vocab_size: int = 50304
    hidden_size: int = 512
    num_hidden_layers: int = 6
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    max_position_embeddings: int = 2048
    rotary_pct: float = 0.25
    rotary_emb_base: float = 10000.0
    layer_norm_eps: float = 1e-5
    use_parallel_residual: bool = True
    hidden_act: str = "gelu"
    initializer_range: float = 0.02

    model_type: ClassVar[str] = "gpt_neox"
    architecture: ClassVar[str] = "GPTNeoXForCausalLM"
    head: ClassVar[tuple[str, ...]] = ()
    renamed: ClassVar[dict[str, str]] = {"lm_head.weight": "embed_out.weight"}
    numbers: ClassVar[dict[str, str]] = {
        "width": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "vocabulary": "vocab_size",
        "hidden": "intermediate_size",
    }

    @classmethod
    def read(cls, entries: dict[str, Any]) -> dict[str, Any]:
        """Return the entries of a config.json as older versions of transformers write them.

        Args:
            entries: The entries.

        Raises:
            UserError: The model has parts that are not here.
        """
        rope = entries.get("rope_parameters") or entries.get("rope_scaling") or {}
        if rope.get("rope_type", rope.get("type", "default")) != "default":
            raise UserError(f"config.json has rotations of the type {rope!r}: give a model with those of Pythia")
        if entries.get("tie_word_embeddings") or entries.get("attention_bias") is False:
            raise UserError("config.json has tied embeddings, or attention without biases: give a model as Pythia has them")
        newer = {"rotary_pct": rope.get("partial_rotary_factor"), "rotary_emb_base": rope.get("rope_theta")}
        return {**entries, **{name: value for name, value in newer.items() if value is not None}}

    def written(self) -> dict[str, Any]:
        """Return further entries of a config.json."""
        return {"tie_word_embeddings": False}

    def check(self) -> None:
        """Raise `UserError` where a number does not fit the others."""
        divided(self.hidden_size, self.num_attention_heads)
        activation(self.hidden_act)

    def make(self, key: PRNGKeyArray) -> "GptNeoX":
        """Return a network with random weights.

        Args:
            key: Random key.
        """
        return GptNeoX(self, key)

    @property
    def vocabulary(self) -> int:
        """The number of tokens."""
        return self.vocab_size


class GptNeoX(eqx.Module):
    """A causal language model: logits [b, T, V] of the token after each of T tokens (Black et al., GPT-NeoX-20B, 2022).

    h = E tokens; each block adds attention(norm(h)) + network(norm'(h)) to h; logits = U norm(h).

    Args:
        config: Its numbers.
        key: Random key of the weights.
    """

    gpt_neox: "Trunk"
    embed_out: Dense

    def __init__(self, config: NeoXConfig, key: PRNGKeyArray):
        trunk, out = jax.random.split(key)
        self.gpt_neox = Trunk(config, trunk)
        self.embed_out = Dense(config.hidden_size, config.vocab_size, config.initializer_range, out, use_bias=False)

    def states(self, tokens: Int[Array, "b t"], remat: bool = False) -> Float[Array, "b t width"]:
        """Return the states of which the logits are U h.

        Args:
            tokens: The tokens; any number below 0 is padding, which follows a text.
            remat: Whether the activations of blocks are computed again for the gradient.
        """
        return self.gpt_neox(jnp.maximum(tokens, 0), remat)

    def __call__(self, tokens: Int[Array, "b t"]) -> Float[Array, "b t vocabulary"]:
        return self.embed_out(self.states(tokens))


class Trunk(eqx.Module):
    """Embedding, blocks and the last normalisation.

    Args:
        config: Its numbers.
        key: Random key of the weights.
    """

    embed_in: Embedding
    layers: list["Block"]
    final_layer_norm: LayerNorm

    def __init__(self, config: NeoXConfig, key: PRNGKeyArray):
        first, *keys = jax.random.split(key, 1 + config.num_hidden_layers)
        self.embed_in = Embedding(config.vocab_size, config.hidden_size, config.initializer_range, first)
        self.layers = [Block(config, key) for key in keys]
        self.final_layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def __call__(self, tokens: Int[Array, "b t"], remat: bool) -> Float[Array, "b t width"]:
        h = self.embed_in(tokens)
        for block in self.layers:
            h = applied(block, h, remat)
        return self.final_layer_norm(h)


class Block(eqx.Module):
    """h + attention(norm(h)) + network(norm'(h)); without the parallel residual the network is of h + attention(norm(h)).

    Args:
        config: Its numbers.
        key: Random key of the weights.
    """

    input_layernorm: LayerNorm
    post_attention_layernorm: LayerNorm
    attention: "Attention"
    mlp: "Network"
    parallel: bool = eqx.field(static=True)

    def __init__(self, config: NeoXConfig, key: PRNGKeyArray):
        first, second = jax.random.split(key)
        self.input_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.post_attention_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.attention, self.mlp = Attention(config, first), Network(config, second)
        self.parallel = config.use_parallel_residual

    def __call__(self, h: Float[Array, "b t width"]) -> Float[Array, "b t width"]:
        attended = h + self.attention(self.input_layernorm(h))
        return attended + self.mlp(self.post_attention_layernorm(h if self.parallel else attended))


class Attention(eqx.Module):
    """Causal attention whose queries and keys are rotated by their places.

    Args:
        config: Its numbers.
        key: Random key of the weights.
    """

    query_key_value: Dense
    dense: Dense
    heads: int = eqx.field(static=True)
    rotated: int = eqx.field(static=True)
    base: float = eqx.field(static=True)

    def __init__(self, config: NeoXConfig, key: PRNGKeyArray):
        first, second = jax.random.split(key)
        width, deviation = config.hidden_size, config.initializer_range
        self.query_key_value, self.dense = Dense(width, 3 * width, deviation, first), Dense(width, width, deviation, second)
        self.heads, self.base = config.num_attention_heads, config.rotary_emb_base
        self.rotated = int(width // self.heads * config.rotary_pct)

    def __call__(self, h: Float[Array, "b t width"]) -> Float[Array, "b t width"]:
        # The numbers of a head lie side by side: its query, its key and its value.
        parts = self.query_key_value(h).reshape(*h.shape[:2], self.heads, 3, -1)
        query, key, value = (parts[:, :, :, part] for part in range(3))
        turned = partial(rotary, rotated=self.rotated, base=self.base)
        return self.dense(attention(turned(query), turned(key), value))


class Network(eqx.Module):
    """Two layers with an activation between.

    Args:
        config: Its numbers.
        key: Random key of the weights.
    """

    dense_h_to_4h: Dense
    dense_4h_to_h: Dense
    act: str = eqx.field(static=True)

    def __init__(self, config: NeoXConfig, key: PRNGKeyArray):
        (first, second), deviation = jax.random.split(key), config.initializer_range
        self.dense_h_to_4h = Dense(config.hidden_size, config.intermediate_size, deviation, first)
        self.dense_4h_to_h = Dense(config.intermediate_size, config.hidden_size, deviation, second)
        self.act = config.hidden_act

    def __call__(self, h: Float[Array, "b t width"]) -> Float[Array, "b t width"]:
        return self.dense_4h_to_h(activation(self.act)(self.dense_h_to_4h(h)))


def rotary(h: Float[Array, "b t heads k"], rotated: int, base: float) -> Float[Array, "b t heads k"]:
    """Return h with the pairs (h_j, h_{j + r/2}) of the first r numbers rotated by the angle t base^(-2j/r) at place t.

    The angles are in single precision, as in transformers (Su et al., RoFormer, 2021, section 3.2.2).

    Args:
        h: Queries or keys.
        rotated: r.
        base: The base of the frequencies.
    """
    frequencies = np.float32(1) / np.float32(base) ** (np.arange(0, rotated, 2, dtype=np.float32) / np.float32(rotated))
    angles = np.arange(h.shape[1], dtype=np.float32)[:, None] * frequencies
    cosine, sine = (jnp.asarray(part, h.dtype)[None, :, None] for part in (np.cos(angles), np.sin(angles)))
    # An odd r turns one number more.
    pairs = frequencies.size
    first, second, rest = h[..., :pairs], h[..., pairs : 2 * pairs], h[..., 2 * pairs :]
    return jnp.concatenate([first * cosine - second * sine, second * cosine + first * sine, rest], axis=-1)


def divided(width: int, heads: int) -> None:
    """Raise `UserError` where heads do not share the numbers of a token.

    Args:
        width: Numbers of a token.
        heads: Heads of a block.
    """
    if width % heads:
        raise UserError(f"a width of {width} is not shared by {heads} heads: take a multiple of these")
