"""One call of `torch.func` about the batches of several clients, each at its own parameters."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
from torch.func import functional_call, grad, grad_and_value, vmap

from turnout.core.errors import UserError
from turnout.problems.oracles.base import NotParallel
from turnout.problems.oracles.torch_tensors import checked, counters, fitting, to_array
from turnout.problems.row_sums import Point

Tensors = dict[str, torch.Tensor]


class NoCommonCall(NotParallel):
    """What clients compute cannot be computed by one call."""


class Stacks:
    """The parameters after the last steps as one tensor for each name [clients, ...], while arrays of clients are parts of it."""

    def __init__(self):
        self._last: dict[int, tuple[Any, Tensors, int]] = {}

    def put(self, questions: list, steps: list[dict[str, np.ndarray]], stack: Tensors) -> None:
        """Remember that `steps`, the answers to `questions`, are the parts of `stack`."""
        for k, (question, step) in enumerate(zip(questions, steps, strict=True)):
            self._last[question.place] = step, stack, k

    def of(self, questions: list) -> Tensors | None:
        """Return the stack of which the parameters of `questions` are the parts, in their order; None where there is none."""
        _, stack, _ = self._last.get(questions[0].place, (None, {}, 0))
        if not stack or len(next(iter(stack.values()))) != len(questions):
            return None
        for k, question in enumerate(questions):
            x, known, place = self._last.get(question.place, (None, {}, 0))
            if question.x is not x or known is not stack or place != k:
                return None
        return stack


class _Whole(torch.nn.Module):
    """The loss of a module, as a module."""

    def __init__(self, module: torch.nn.Module, loss):
        super().__init__()
        self.module, self.loss = module, loss

    def forward(self, batch):
        return self.loss(self.module, batch)


def answers(questions: list, stacks: Stacks) -> list:
    """Return what `TorchOracle` answers to questions of one kind.

    Args:
        questions: `Question`s with batches of one shape.
        stacks: Parameters after the last steps.
    """
    first = questions[0]
    oracle, order = first.oracle, first.order
    at = [{**q.x.fixed, **q.x.varied} if isinstance(q.x, Point) else q.x for q in questions]
    names = [*first.arguments.get("v", first.x.varied if isinstance(first.x, Point) else oracle.parameters)]
    varied = stacks.of(questions) or {name: _stacked(at, name, oracle.parameters[name]) for name in names}
    fixed = {name: _one_or_stacked(at, name, p) for name, p in oracle.parameters.items() if name not in names}
    moving = {name: _moving(at, name, buffer) for name, buffer in oracle.buffers.items()}
    batch = [torch.stack(leaves).to(oracle.device) for leaves in zip(*(q.tensors for q in questions), strict=True)]
    directions = {
        name: _stacked([q.arguments["v"] for q in questions], name, varied[name][0]) for name in first.arguments.get("v", ())
    }
    call = _call(oracle, order, first.structure, first.arguments.get("factor"))
    axes = (0, {name: None if shared else 0 for name, (_, shared) in fixed.items()}, 0, 0, 0)
    torch.clear_autocast_cache()
    try:
        found = vmap(call, in_dims=axes)(varied, {name: leaf for name, (leaf, _) in fixed.items()}, moving, batch, directions)
    except UserError:
        raise
    except Exception as error:
        raise NoCommonCall(str(error).strip().partition("\n")[0]) from error
    arrays = jax.tree.map(to_array, found)
    each = [jax.tree.map(lambda leaf, k=k: leaf[k], arrays) for k in range(len(questions))]
    if order == "step":
        stacks.put(questions, each, found)
    return each


def _call(oracle: Any, order: str, structure: Any, factor: float | None) -> Callable:
    """Return the function of one client's tensors that answers `order`."""
    whole, counts = _Whole(oracle.module, oracle.loss), {name: oracle.module.get_buffer(name) for name in counters(oracle.module)}

    def value(varied: Tensors, fixed: Tensors, moving: Tensors, batch: list) -> tuple[torch.Tensor, Tensors]:
        # Passes in training write into buffers.
        moved = {name: buffer.clone() for name, buffer in moving.items()}
        tensors = {**fixed, **varied, **moved, **{name: count.clone() for name, count in counts.items()}}
        named = {f"module.{name}": tensor for name, tensor in tensors.items()}
        loss = checked(functional_call(whole, named, (jax.tree.unflatten(structure, batch),)))
        return loss.reshape(()), moved

    def along(varied, fixed, moving, batch, directions) -> torch.Tensor:
        slopes, _ = grad(value, has_aux=True)(varied, fixed, moving, batch)
        return sum(((slopes[name] * direction).sum() for name, direction in directions.items()), torch.zeros(()))

    def call(varied, fixed, moving, batch, directions):
        if order == "value":
            return value(varied, fixed, moving, batch)[0]
        if order == "hvp":
            return grad(along)(varied, fixed, moving, batch, directions)
        slopes, (loss, moved) = grad_and_value(value, has_aux=True)(varied, fixed, moving, batch)
        if order == "step":
            return {name: factor * slope + varied[name] for name, slope in slopes.items()}
        return ((loss, moved) if order == "training" else loss), slopes

    return call


def _stacked(at: list[dict], name: str, like: torch.Tensor) -> torch.Tensor:
    """Return clients' leaves of one name as one tensor [clients, ...]."""
    return torch.stack([fitting(leaves, name, like) for leaves in at])


def _one_or_stacked(at: list[dict], name: str, like: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return the leaf of all clients and True where they have it in the same memory, else one tensor [clients, ...] and False."""
    places = {(leaf["data"], leaf["strides"]) for leaf in (np.asarray(leaves[name]).__array_interface__ for leaves in at)}
    return (fitting(at[0], name, like), True) if len(places) == 1 else (_stacked(at, name, like), False)


def _moving(at: list[dict], name: str, buffer: torch.Tensor) -> torch.Tensor:
    """Return clients' running statistics of one name [clients, ...]: those of the module where clients are asked at none."""
    return _stacked(at, name, buffer) if name in at[0] else buffer.expand(len(at), *buffer.shape).clone()
