"""Losses of tokens, of which the logits are computed for some places at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from turnout.problems.language import token_losses
from turnout.problems.language.token_losses import next_token_losses


@pytest.mark.slow
def test_losses_in_blocks_are_those_at_once(monkeypatch):
    generator = np.random.default_rng(0)
    states, weight = jnp.asarray(generator.normal(size=(3, 5, 4))), jnp.asarray(generator.normal(size=(7, 4)))
    targets = np.where(generator.random((3, 5)) < 0.3, -1, generator.integers(0, 7, (3, 5)))
    targets[:, 0] = 2

    def losses(states, weight):
        return next_token_losses(states, weight, jnp.asarray(targets)).sum()

    whole = jax.value_and_grad(losses, (0, 1))(states, weight)
    for tokens in (1, 2, 4):
        monkeypatch.setattr(token_losses, "LOGITS", tokens * 7 * 8)
        assert token_losses.block_size(weight) == tokens
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), whole, jax.value_and_grad(losses, (0, 1))(states, weight)
        )
    logits = states @ weight.T
    logs = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, np.maximum(targets, 0)[..., None], -1)[..., 0]
    np.testing.assert_allclose(whole[0], sum(np.mean(row[own >= 0]) for row, own in zip(logs, targets, strict=True)))


def test_the_logits_of_all_tokens_are_never_held():
    """The gradient takes less than half of the memory of the logits of 16 texts of 8 tokens, which are 512 MB."""
    vocabulary = 2**20
    weight, states = jax.ShapeDtypeStruct((vocabulary, 8), jnp.float32), jax.ShapeDtypeStruct((16, 8, 8), jnp.float32)
    targets = jax.ShapeDtypeStruct((16, 8), jnp.int32)
    program = jax.jit(jax.grad(lambda s, w, b: next_token_losses(s, w, b).sum(), (0, 1))).lower(states, weight, targets)
    assert program.compile().memory_analysis().temp_size_in_bytes < 16 * 8 * vocabulary * 4 / 2
