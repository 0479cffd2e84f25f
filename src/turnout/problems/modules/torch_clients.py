"""Clients that share a module of PyTorch."""

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from turnout.problems.modules.base import failed
from turnout.problems.modules.losses import CROSS_ENTROPY, SQUARED_ERROR, Loss, loss_failures_told, refuse_losses, refuse_outputs
from turnout.problems.oracles.torch_module import TorchOracle, parameters_of
from turnout.problems.remote import Remote

AT_ONCE = 256
"""Rows of a batch in passes over all rows."""

PIXEL = 255
"""The byte value of a pixel 1.0."""


def torch_problem(module: torch.nn.Module, loss: Loss, rows: tuple, parts: dict[str, Any], mu: float) -> Remote:
    """Return the problem of clients that share a module.

    Args:
        module: The module, which takes batches.
        loss: The loss.
        rows: (features, labels) of all clients, client by client.
        parts: `offsets`, `population`, and `classes` where labels are those.
        mu: Weight of the regulariser.
    """
    classes, population = parts.get("classes"), parts["population"]
    features, labels = _tensors(module, rows, classes)
    mean = _mean_loss(loss, mu)
    correct = None if classes is None else _correct
    datasets = [TensorDataset(features[a:b], labels[a:b]) for a, b in zip(parts["offsets"], parts["offsets"][1:], strict=False)]
    clients = [TorchOracle(module, DataLoader(each, batch_size=AT_ONCE), mean, correct) for each in datasets]
    _check(module, loss, datasets[0][:2], classes)
    return Remote.of(parameters_of(module), clients, weights=population.weights, classifies=classes is not None)


def _tensors(module: torch.nn.Module, rows: tuple, classes: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features in the type of the module's parameters, and labels."""
    dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), torch.float32)
    features, labels = (torch.from_numpy(np.ascontiguousarray(part)) for part in rows)
    features = features.to(dtype) / (PIXEL if features.dtype == torch.uint8 else 1)
    return features, labels.to(dtype if classes is None else torch.int64)


def _mean_loss(loss: Loss, mu: float):
    """Return the mean loss of a batch as a function of the module and the batch."""

    def mean(module, batch):
        value = _losses(loss, module(batch[0]), batch[1]).mean()
        if not mu:
            return value
        return value + mu / 2 * sum((p * p).sum() for p in module.parameters() if p.requires_grad)

    return mean


def _losses(loss: Loss, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if loss == CROSS_ENTROPY:
        return torch.nn.functional.cross_entropy(outputs, labels, reduction="none")
    if loss == SQUARED_ERROR:
        return (outputs.reshape(labels.shape) - labels) ** 2
    return loss(outputs, labels)  # type: ignore


def _correct(module: torch.nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    return (module(batch[0]).argmax(-1) == batch[1]).sum()


def _check(module: torch.nn.Module, loss: Loss, batch: tuple[torch.Tensor, ...], classes: int | None) -> None:
    """Raise `UserError` where the outputs of a module do not fit the labels, or the loss is none of each row."""
    features, labels = (part.to(next(module.parameters()).device) for part in batch)
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            outputs = module(features)
    except Exception as error:
        raise failed("evaluation", len(labels), (*features.shape[1:],), error) from error
    finally:
        for part, mode in modes:
            part.training = mode
    refuse_outputs(loss, (*outputs.shape,), len(labels), classes)
    losses = loss_failures_told(lambda: _losses(loss, outputs, labels))
    known = isinstance(losses, torch.Tensor)
    what = f"{losses.dtype} of shape {(*losses.shape,)}" if known else f"a {type(losses).__name__}"
    refuse_losses(what, (*losses.shape,) if known and losses.is_floating_point() else None, len(labels))
