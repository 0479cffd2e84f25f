"""A loss as a PyTorch module with a DataLoader."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from turnout.errors import UserError
from turnout.oracles.base import Oracle


class TorchOracle(Oracle):
    """f_i of a PyTorch `module`: loss(module, batch) is the mean loss over a batch of `loader`'s dataset.

    Parameters are a dictionary of arrays by the names that `module.named_parameters()` gives; buffers stay with the module. Which
    rows a batch has, and in which order, is told by turnout; the loader gives the dataset, how rows are put together, and how
    many are passed over at once where all are. `right(module, batch)` counts, where rows have classes, those classified rightly.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loader: DataLoader,
        loss: Callable[[torch.nn.Module, Any], torch.Tensor],
        right: Callable[[torch.nn.Module, Any], torch.Tensor] | None = None,
    ):
        self.module, self.loss, self.right = module, loss, right
        self.dataset, self.collate = loader.dataset, loader.collate_fn
        self.size, self.together = len(loader.dataset), loader.batch_size or 1  # type: ignore
        self.parameters = dict(module.named_parameters())
        if self.size < 1:
            raise UserError("a client has at least one row, but the DataLoader's dataset is empty")

    def value(self, x, rows):
        self._load(x)
        with torch.no_grad():
            return sum(share * float(self.loss(self.module, batch)) for share, batch in self._batches(rows))

    def value_and_grad(self, x, rows):
        self._load(x)
        self.module.zero_grad()
        value = 0.0
        for share, batch in self._batches(rows):
            part = share * self.loss(self.module, batch)
            part.backward()
            value += float(part.detach())
        return value, {name: _array(p.grad, p) for name, p in self.parameters.items()}

    def hvp(self, x, v, rows):
        self._load(x)
        names, parameters = zip(*self.parameters.items(), strict=True)
        along = [torch.as_tensor(np.array(v[name])).to(p) for name, p in self.parameters.items()]
        products = [torch.zeros_like(p) for p in parameters]
        for share, batch in self._batches(rows):
            slopes = torch.autograd.grad(share * self.loss(self.module, batch), parameters, create_graph=True)
            inner = sum((slope * part).sum() for slope, part in zip(slopes, along, strict=True))
            for product, part in zip(products, torch.autograd.grad(inner, parameters, allow_unused=True), strict=True):
                if part is not None:
                    product += part
        return {name: _array(product, product) for name, product in zip(names, products, strict=True)}

    def accuracy(self, x):
        if self.right is None:
            return super().accuracy(x)
        self._load(x)
        with torch.no_grad():
            return sum(float(self.right(self.module, batch)) for _, batch in self._batches(slice(None))) / self.size

    def _load(self, x) -> None:
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(torch.as_tensor(np.array(x[name])))

    def _batches(self, rows) -> Iterator[tuple[float, Any]]:
        """Yield the rows in batches of the loader's size, each with its share of them."""
        numbers = np.arange(self.size)[rows]
        for start in range(0, numbers.size, self.together):
            mine = numbers[start : start + self.together]
            yield mine.size / numbers.size, self.collate([self.dataset[int(k)] for k in mine])


def parameters_of(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """Return a module's parameters as `TorchOracle` names them."""
    return {name: _array(parameter, parameter) for name, parameter in module.named_parameters()}


def _array(tensor: torch.Tensor | None, like: torch.Tensor) -> np.ndarray:
    return (torch.zeros_like(like) if tensor is None else tensor).detach().cpu().numpy().copy()
