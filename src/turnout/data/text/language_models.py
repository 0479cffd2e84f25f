"""Causal language models."""

from pathlib import Path

import torch
import transformers
from torch import Tensor, nn

from turnout.data.text.pretrained import drawn, read_model

PYTHIA_70M = {
    "vocab_size": 50304,
    "hidden_size": 512,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
    "max_position_embeddings": 2048,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "initializer_range": 0.02,
    "rotary_pct": 0.25,
    "rotary_emb_base": 10000,
    "use_parallel_residual": True,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
"""The configuration of Pythia-70M (Biderman et al., 2023): 70,426,624 parameters, 18,915,328 without the two embeddings."""


def pythia_70m(folder: str | Path | None = None, seed: int = 0, **changes) -> nn.Module:
    """Return a GPT-NeoX language model.

    Args:
        folder: A folder with weights; None draws them.
        seed: Seed of drawn weights.
        **changes: Changes of the configuration `PYTHIA_70M` of drawn weights.

    Raises:
        UserError: The weights are missing or unreadable.
    """
    if folder is not None:
        return read_model(transformers.GPTNeoXForCausalLM, folder, "gpt_neox").train()
    with drawn(seed):
        return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**{**PYTHIA_70M, **changes}))


def next_token_loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Return the mean over the texts of a batch of -(1/T) sum_t log p(token t | tokens before t), t = 2, ..., T + 1.

    Args:
        model: The language model.
        batch: Inputs.
    """
    tokens, mask = batch["input_ids"], batch["attention_mask"]
    logits = model(input_ids=tokens, attention_mask=mask).logits[:, :-1]
    losses = nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
    counted = mask[:, 1:].to(losses.dtype)
    return ((losses * counted).sum(1) / torch.clamp(counted.sum(1), min=1)).mean()
