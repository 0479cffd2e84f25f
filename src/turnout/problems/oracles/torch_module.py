"""`TorchOracle`: a loss as a PyTorch module with a DataLoader."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from typing import Any, ClassVar

import jax
import numpy as np

from turnout.core.errors import UserError, caution
from turnout.problems.oracles.base import NotParallel, Oracle

try:
    import torch
    from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate
except ImportError as error:
    raise UserError(f"TorchOracle needs torch ({error}): pip install 'turnout[torch]'") from None

from turnout.problems.oracles.parallel_torch import FETCH_LOCK, ModulePool, leaves, local, run_parallel
from turnout.problems.oracles.torch_lockstep import LockstepOracle, can_step_together, run_in_lockstep
from turnout.problems.oracles.torch_tensors import (
    checked,
    counters,
    fitting,
    in_same_memory,
    moved,
    put_back,
    running_statistics,
    to_array,
    to_tensor,
    trained,
)
from turnout.problems.row_sums import Point


class TorchOracle(Oracle):
    """f_i of a PyTorch module: loss(module, batch) is the mean loss over a batch of the loader's dataset.

    Parameters x are a dictionary of arrays by the names of `module.named_parameters()`, without those that require no gradient;
    these and buffers stay with the module, but for the running statistics of normalisation by batches. turnout chooses the rows
    of each batch and their order; the loader provides the dataset, the collation, and the batch size for passes over all rows.
    Batches are moved to the module's device.

    Local methods use the module in the mode that it was given in, and its random numbers follow the client's key. Metrics are
    computed in evaluation mode. The module's own parameters and running statistics are unchanged after each call, so that clients
    may share a module without other buffers.

    Args:
        module: The module.
        loader: A DataLoader with a map-style dataset.
        loss: Returns the mean loss of a batch, a scalar tensor.
        correct: Returns how many rows of a batch the module classifies correctly; None if rows have no classes.

    Raises:
        UserError: The dataset is iterable or empty, or no parameter requires a gradient.
    """

    returns_new_arrays: ClassVar[bool] = True
    asked_at_points: ClassVar[bool] = True

    borrowed: bool = False
    """Whether the module's parameters are put back by the local method that uses it, rather than after each call."""

    placed: dict[str, np.ndarray] | None = None
    """The parameters that the last step left in the module."""

    originals: frozenset = frozenset()
    """Parameters of the module that this oracle's module is a copy of, until the loss is known not to use them."""

    def __init__(
        self,
        module: torch.nn.Module,
        loader: DataLoader,
        loss: Callable[[torch.nn.Module, Any], torch.Tensor],
        correct: Callable[[torch.nn.Module, Any], torch.Tensor] | None = None,
    ):
        if isinstance(loader.dataset, IterableDataset):
            raise UserError(
                "a client's rows are taken by their numbers, but the DataLoader's dataset has none: give a map-style one"
            )
        if loader.drop_last:
            caution("the DataLoader's drop_last has no effect: turnout chooses the rows of each batch, and a pass has them all")
        self.module, self.loss, self.correct = module, loss, correct
        self.dataset, self.collate = loader.dataset, loader.collate_fn
        self.size, self.rows_at_once = len(loader.dataset), loader.batch_size or 1  # type: ignore
        self.parameters, self.buffers = dict(trained(module)), dict(running_statistics(module))
        if self.size < 1:
            raise UserError("a client has at least one row, but the DataLoader's dataset is empty")
        if any(getattr(part, "momentum", 0) is None for part in module.modules()):
            raise UserError("normalisation with momentum = None has no running mean that can be averaged: give it a momentum")
        if not self.parameters:
            raise UserError("no parameter of the module wants a gradient, so that there is nothing to train: unfreeze some")
        self.device = next(iter(self.parameters.values())).device

    def value(self, x, rows):
        with self._at(x), torch.no_grad():
            return sum(share * float(self._loss(batch)) for share, batch in self._batches(rows))

    def value_and_grad(self, x, rows):
        with self._at(x):
            value = self._backward(rows, self._along(x))
            return value, self._gradients(x)

    def training(self, x, rows):
        with self._at(x):
            value = self._backward(rows, self._along(x))
            moved = {name: to_array(buffer).copy() for name, buffer in self.buffers.items() if name in x.fixed}
            return (value, moved), self._gradients(x)

    def _gradients(self, x) -> dict[str, np.ndarray]:
        """Return the gradients of the parameters, or of those that vary."""
        names = x.varied if isinstance(x, Point) else self.parameters
        return {name: to_array(_or_zeros(self.parameters[name].grad, self.parameters[name])) for name in names}

    def _along(self, x) -> list[torch.Tensor] | None:
        """Return the parameters along which there are gradients; None for all."""
        return [self.parameters[name] for name in x.varied] if isinstance(x, Point) else None

    def step(self, x, rows, factor):
        if not self.borrowed or self.device.type != "cpu":
            return None
        self._place(x)
        self._backward(rows)
        for p in self.parameters.values():
            # The gradient's memory becomes that of the parameter, with the roundings of NumPy: a product, then a sum.
            p.data = p.data.clone() if p.grad is None else p.grad.mul_(factor).add_(p.data)
        self.placed = {name: to_array(p) for name, p in self.parameters.items()}
        return self.placed

    def _backward(self, rows, along: list[torch.Tensor] | None = None) -> float:
        """Add the gradient to those of the parameters, of all or `along` some, and return the value."""
        value = 0.0
        for share, batch in self._batches(rows):
            part = self._loss(batch) if share == 1 else share * self._loss(batch)
            part.backward(inputs=along)
            value += part.item()
        return value

    def hvp(self, x, v, rows):
        names, parameters = zip(*((name, p) for name, p in self.parameters.items() if name in v), strict=True)
        along = [to_tensor(v[name], p) for name, p in zip(names, parameters, strict=True)]
        products = [torch.zeros_like(p) for p in parameters]
        with self._at(x):
            for share, batch in self._batches(rows):
                slopes = torch.autograd.grad(share * self._loss(batch), parameters, create_graph=True, allow_unused=True)
                # Slopes of parameters in which the loss is linear have no graph.
                terms = [(slope * part).sum() for slope, part in zip(slopes, along, strict=True) if _differentiable(slope)]
                parts = torch.autograd.grad(sum(terms), parameters, allow_unused=True) if terms else [None] * len(parameters)
                for product, part in zip(products, parts, strict=True):
                    if part is not None:
                        product += part
        return {name: to_array(product) for name, product in zip(names, products, strict=True)}

    def accuracy(self, x):
        if self.correct is None:
            return super().accuracy(x)
        with self._at(x), torch.no_grad():
            return sum(float(self.correct(self.module, batch)) for _, batch in self._batches(slice(None))) / self.size

    def saved(self, x):
        return state_of(self.module, x)

    @property
    def running(self):
        return {name: to_array(buffer).copy() for name, buffer in self.buffers.items()}

    def kept(self):
        known = {*self.buffers, *counters(self.module)}
        return {name: to_array(buffer) for name, buffer in self.module.named_buffers() if name not in known}

    def ways_together(self, others):
        return [run_in_lockstep, run_parallel] if can_step_together([self, *others]) else [run_parallel]

    @contextmanager
    def local_work(self, key):
        if local.ask is not None:
            yield LockstepOracle(self, local.ask)
            return
        with self._seeded(key) if local.pool is None else self._from_pool(local.pool) as oracle, oracle.borrow() as borrowed:
            yield borrowed

    @contextmanager
    def borrow(self) -> Iterator["TorchOracle"]:
        """Yield an oracle that leaves parameters and buffers in the module, where they are put back at the end."""
        with put_back([*self.parameters.values(), *self.buffers.values()]):
            oracle = copy(self)
            oracle.borrowed = True
            yield oracle

    @contextmanager
    def _from_pool(self, pool: ModulePool) -> Iterator["TorchOracle"]:
        if self.kept():
            raise NotParallel
        with pool.lend(self.module) as module:
            oracle = copy(self)
            oracle.module, oracle.parameters, oracle.in_parallel = module, dict(trained(module)), True
            oracle.buffers = dict(running_statistics(module))
            oracle.originals = frozenset() if module is self.module else frozenset(self.parameters.values())
            yield oracle

    @contextmanager
    def _seeded(self, key) -> Iterator["TorchOracle"]:
        seed = int.from_bytes(np.asarray(jax.random.key_data(key)).tobytes(), "little")
        # torch.manual_seed looks for all devices, which takes milliseconds.
        if self.device.type == "cpu":
            with torch.random.fork_rng([]):
                torch.default_generator.manual_seed(seed)
                yield self
        else:
            with torch.random.fork_rng([self.device], device_type=self.device.type):
                torch.manual_seed(seed)
                yield self

    @contextmanager
    def evaluating(self):
        modes = [(part, part.training) for part in self.module.modules()]
        self.module.eval()
        try:
            yield
        finally:
            for part, mode in modes:
                part.training = mode

    @contextmanager
    def _at(self, x) -> Iterator[None]:
        """Set the module's parameters to x inside, without a copy where types and devices agree."""
        with nullcontext() if self.borrowed else self.borrow():
            self._place(x)
            try:
                yield
            except torch.OutOfMemoryError as error:
                raise UserError(
                    f"a batch of a PyTorch client needs more memory than {self.device} has: take smaller ones"
                ) from error

    def _place(self, x) -> None:
        """Set the module's parameters to x, and their gradients to none."""
        leaves = {**x.fixed, **x.varied} if isinstance(x, Point) else x
        for name, p in self.parameters.items():
            p.grad = None
            if x is not self.placed:
                p.data = fitting(leaves, name, p)
        for name, buffer in self.buffers.items():
            if name in leaves:
                # Passes in training write into these.
                buffer.data = fitting(leaves, name, buffer).clone()
        self.placed = None
        # Autocast around a whole run would keep casts of former parameters.
        torch.clear_autocast_cache()

    def _loss(self, batch) -> torch.Tensor:
        try:
            loss = self._checked_loss(batch) if self.originals else self.loss(self.module, batch)
        except torch.OutOfMemoryError:
            raise
        except (IndexError, ValueError, RuntimeError) as error:
            why = str(error).partition("\n")[0]
            remedy = "let what the module puts out fit the labels"
            if "more than 1 value per channel" in why:
                # turnout chooses the rows of batches, so that the loader's drop_last has no say.
                remedy = "take batches of which the last of a pass has several rows, or another normalisation"
            raise UserError(f"a PyTorch client's loss fails ({why}): {remedy}") from error
        return checked(loss)

    def _checked_loss(self, batch) -> torch.Tensor:
        """Return the loss; `NotParallel` if it uses the parameters of the original module."""
        with torch.enable_grad():
            loss = self.loss(self.module, batch)
        if leaves(loss) & self.originals:
            raise NotParallel
        self.originals = frozenset()
        return loss if torch.is_grad_enabled() else loss.detach()

    def _batches(self, rows) -> Iterator[tuple[float, Any]]:
        """Yield batches of the loader's size on the module's device, each with its share of the rows."""
        for share, numbers in self.parts(rows):
            yield share, moved(self.batch(numbers), self.device)

    def parts(self, rows) -> Iterator[tuple[float, np.ndarray]]:
        """Yield the numbers of rows in batches of the loader's size, each with its share of all.

        Args:
            rows: Numbers of the rows [b], or `slice(None)` for all.
        """
        numbers = np.arange(self.size)[rows] if isinstance(rows, slice) else np.asarray(rows)
        for start in range(0, numbers.size, self.rows_at_once):
            part = numbers[start : start + self.rows_at_once]
            yield part.size / numbers.size, part

    def batch(self, numbers: np.ndarray) -> Any:
        """Return the rows `numbers` as the loader collates them."""
        if type(self.dataset) is TensorDataset and self.collate is default_collate:
            places = in_same_memory(numbers)
            return [tensor.index_select(0, places) for tensor in self.dataset.tensors]
        with FETCH_LOCK:
            try:
                return self._fetched(numbers)
            except RuntimeError as error:
                why = str(error).partition("\n")[0]
                raise UserError(f"rows of a PyTorch client make no batch ({why}): give the DataLoader a collate_fn") from error

    def _fetched(self, numbers: np.ndarray) -> Any:
        get_items = getattr(self.dataset, "__getitems__", None)
        if get_items is not None:
            return self.collate(get_items(numbers.tolist()))
        return self.collate([self.dataset[k] for k in numbers.tolist()])


def parameters_of(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """Return copies of a module's trained parameters by name, to start a run with; `UserError` if one is NaN or infinite."""
    for name, parameter in trained(module):
        if not torch.isfinite(parameter).all():
            raise UserError(f"parameter {name} of the module is NaN or infinite: initialise it, or load other weights")
    return {name: to_array(parameter).copy() for name, parameter in trained(module)}


def set_parameters(module: torch.nn.Module, x: dict[str, Any]) -> None:
    """Write the parameters x of a run into a module, and the running statistics where x has them.

    Args:
        module: The module.
        x: Parameters by name, such as `trace.x`.
    """
    with torch.no_grad():
        for name, tensor in (*trained(module), *((name, b) for name, b in running_statistics(module) if name in x)):
            tensor.copy_(fitting(x, name, tensor))


def state_of(module: torch.nn.Module, x: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of `module.state_dict()` with x in the place of the trained parameters and of running statistics.

    Args:
        module: The module.
        x: Parameters by name, such as `trace.x`.
    """
    running = ((name, buffer) for name, buffer in running_statistics(module) if name in x)
    names = {id(tensor): name for name, tensor in (*trained(module), *running)}
    buffers = {id(buffer) for buffer in module.buffers()}
    state = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        if id(tensor) in names:
            state[name] = x[names[id(tensor)]]
        elif isinstance(tensor, torch.Tensor):
            state[name] = to_array(tensor).copy() if id(tensor) in buffers else to_array(tensor)
    return state


def _differentiable(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and tensor.requires_grad


def _or_zeros(tensor: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if tensor is None else tensor
