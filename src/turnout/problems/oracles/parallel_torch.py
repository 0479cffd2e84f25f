"""Local methods of PyTorch clients in parallel, each in its own thread."""

import pickle
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy

import jax
import jax.numpy as jnp
import numpy as np
import torch

from turnout.problems.oracles.base import NotParallel

FETCH_LOCK = threading.Lock()
"""Held while rows are fetched, since clients' datasets may share a file."""


class Local(threading.local):
    """What local methods in this thread use beside their own: modules of a pool, or answers that are computed for all at once."""

    pool: "ModulePool | None" = None
    ask: Callable | None = None


local = Local()


def run_parallel(tasks: list[Callable]) -> list:
    """Run `tasks`, as many at a time as PyTorch has threads, and return their results.

    `NotParallel` if one fails, or draws from PyTorch's or NumPy's global generator, which all threads share.
    """
    threads = torch.get_num_threads()
    workers = min(threads, len(tasks))
    if workers < 2:
        return [task() for task in tasks]
    before, modules, double = generators(), ModulePool(), jnp.result_type(float) == jnp.float64
    cast = {"dtype": torch.get_autocast_dtype("cpu"), "enabled": torch.is_autocast_enabled("cpu")}

    def begin() -> None:
        local.pool = modules
        torch.set_num_threads(threads // workers)

    def run(task: Callable):
        # JAX's and PyTorch's precision settings hold for one thread.
        with jax.enable_x64(double), torch.autocast("cpu", **cast):
            result = task()
        if generators() != before:
            raise NotParallel
        return result

    try:
        with ThreadPoolExecutor(workers, initializer=begin) as pool:
            return list(pool.map(run, tasks))
    # A user's loss may raise anything. The tasks then run one after another, where the first that fails raises its error.
    except Exception as error:
        set_generators(before)
        raise NotParallel from error
    finally:
        torch.set_num_threads(threads)


class ModulePool:
    """Lends each module to one thread, and copies to threads that use it, or its parameters, at the same time."""

    def __init__(self):
        self.lock, self.in_use = threading.Lock(), set[torch.nn.Parameter]()
        self.copies: dict[torch.nn.Module, list[torch.nn.Module]] = defaultdict(list)

    @contextmanager
    def lend(self, module: torch.nn.Module) -> Iterator[torch.nn.Module]:
        """Yield `module`, or a copy that shares its frozen parameters; `NotParallel` on an accelerator."""
        if next(module.parameters()).device.type != "cpu":
            raise NotParallel
        with self.lock:
            lent, spare = module, self.copies[module]
            if not self.in_use.isdisjoint(_trained(module)):
                lent = spare.pop() if spare else _copy(module)
            self.in_use |= _trained(lent)
        try:
            yield lent
        finally:
            with self.lock:
                self.in_use -= _trained(lent)
                if lent is not module:
                    spare.append(lent)


def _trained(module: torch.nn.Module) -> set[torch.nn.Parameter]:
    return {p for p in module.parameters() if p.requires_grad}


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of a module that shares the memory of its parameters."""
    shared = {id(p): torch.nn.Parameter(p.data) if p.requires_grad else p for p in module.parameters()}
    return deepcopy(module, shared)


def leaves(loss: torch.Tensor) -> set[torch.Tensor | None]:
    """Return the tensors that a loss is differentiated by, and None."""
    variables, seen, queue = set(), set(), [loss.grad_fn]
    while queue:
        node = queue.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variables.add(getattr(node, "variable", None))
        queue += [parent for parent, _ in node.next_functions]
    return variables


def generators() -> bytes:
    """Return the states of PyTorch's and NumPy's global generators."""
    return pickle.dumps((torch.get_rng_state().numpy(), np.random.get_state()))


def set_generators(states: bytes) -> None:
    """Set PyTorch's and NumPy's global generators to what `generators` returned.

    Args:
        states: Their states.
    """
    of_torch, of_numpy = pickle.loads(states)
    torch.set_rng_state(torch.from_numpy(of_torch))
    np.random.set_state(of_numpy)
