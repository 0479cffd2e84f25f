"""PyTorch tensors and NumPy arrays, and which tensors of a module are trained, averaged or counted."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from turnout.core.errors import UserError

BFLOAT16 = np.dtype(jnp.bfloat16)


def trained(module: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Return the parameters that require a gradient, with their names."""
    return [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]


def running_statistics(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the running means and variances of normalisation by batches, by name."""
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._NormBase) and part.track_running_stats:
            named = part.named_buffers(name, recurse=False)
            yield from ((buffer, tensor) for buffer, tensor in named if tensor.is_floating_point())


def counters(module: torch.nn.Module) -> Iterator[str]:
    """Return the names of the numbers of batches that normalisation counts, and does not use."""
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._NormBase) and part.momentum is not None:
            yield f"{name}.num_batches_tracked" if name else "num_batches_tracked"


def moved(batch: Any, device: torch.device) -> Any:
    """Return a batch with the tensors in its lists and dictionaries moved to `device`.

    Args:
        batch: Tensors in tuples, lists and dictionaries.
        device: The device.
    """
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, dict):
        return {name: moved(part, device) for name, part in batch.items()}
    if isinstance(batch, list | tuple):
        parts = [moved(part, device) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


@contextmanager
def put_back(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Set parameters with their gradients, and buffers, to what they are now at the end."""
    before = [(tensor, tensor.data, tensor.grad) for tensor in tensors]
    try:
        yield
    finally:
        for tensor, data, gradient in before:
            tensor.data, tensor.grad = data, gradient


def fitting(x: dict[str, Any], name: str, like: torch.Tensor) -> torch.Tensor:
    """Return x[name] as a tensor of the shape, type and device of `like`; `UserError` if it does not fit.

    Args:
        x: Arrays by name.
        name: Name of the array.
        like: The module's tensor.
    """
    if name not in x or np.shape(x[name]) != like.shape:
        given = f"of shape {np.shape(x[name])}" if name in x else "missing"
        expected = f"parameter {name} of shape {(*like.shape,)}"
        raise UserError(f"the module has a {expected}, which is {given} in the run's: start with parameters_of(module)")
    return to_tensor(x[name], like)


def to_tensor(array: Any, like: torch.Tensor) -> torch.Tensor:
    """Return an array as a tensor of the type and device of `like`, in the same memory where these agree.

    Args:
        array: The array.
        like: A tensor.
    """
    array = np.asarray(array)
    # NumPy's own interchange has no bfloat16.
    bits = array.view(np.uint16) if array.dtype == BFLOAT16 else array
    tensor = in_same_memory(bits)
    return (tensor.view(torch.bfloat16) if bits is not array else tensor).to(like.device, like.dtype)


def in_same_memory(array: np.ndarray) -> torch.Tensor:
    """Return an array as a tensor in the same memory."""
    # PyTorch warns of arrays that cannot be written, unless they come by the other way, which takes longer.
    return torch.from_numpy(array) if array.flags.writeable else torch.from_dlpack(array)


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor as an array, in the same memory where that is the CPU's."""
    tensor = tensor.detach().cpu()
    return tensor.view(torch.uint16).numpy().view(BFLOAT16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def checked(loss: Any) -> torch.Tensor:
    """Return what a loss returned, a scalar tensor; `UserError` if it is anything else."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.is_floating_point():
        what = f"{loss.dtype} of shape {(*loss.shape,)}" if isinstance(loss, torch.Tensor) else f"a {type(loss).__name__}"
        raise UserError(f"a PyTorch client's loss is {what}: return the mean loss of the batch, a scalar tensor")
    return loss
