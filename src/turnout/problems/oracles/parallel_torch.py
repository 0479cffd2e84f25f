"""Local methods of PyTorch clients side by side, each in a thread of its own."""

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

_here = threading.local()


def run_parallel(tasks: list[Callable]) -> list | None:
    """Return what `tasks` return, as many done at a time as PyTorch has threads.

    None where one fails, or draws from PyTorch's or NumPy's own generator, which all threads share.
    """
    threads = torch.get_num_threads()
    many = min(threads, len(tasks))
    if many < 2:
        return [task() for task in tasks]
    generators, current_pool, wide = _generators(), ModulePool(), jnp.result_type(float) == jnp.float64
    cast = {"dtype": torch.get_autocast_dtype("cpu"), "enabled": torch.is_autocast_enabled("cpu")}

    def begin() -> None:
        _here.current_pool = current_pool
        torch.set_num_threads(threads // many)

    def play(task: Callable):
        # What JAX and PyTorch are told of precision holds for one thread.
        with jax.enable_x64(wide), torch.autocast("cpu", **cast):
            found = task()
        if _generators() != generators:
            raise NotParallel
        return found

    try:
        with ThreadPoolExecutor(many, initializer=begin) as pool:
            found = list(pool.map(play, tasks))
    # A loss is anybody's code and may fail in any way. What fails in turn too is raised there, by the first task that does.
    except Exception:
        found = None
    finally:
        torch.set_num_threads(threads)
    if found is None:
        _set_generators(generators)
    return found


def current_pool() -> "ModulePool | None":
    """Return who lends modules to the threads that work side by side, if this is one of them."""
    return getattr(_here, "current_pool", None)


class ModulePool:
    """Lends each module to one thread, and copies to others that want it, or parameters of it, at the same time."""

    def __init__(self):
        self.lock, self.in_use = threading.Lock(), set[torch.nn.Parameter]()
        self.copies: dict[torch.nn.Module, list[torch.nn.Module]] = defaultdict(list)

    @contextmanager
    def lend(self, module: torch.nn.Module) -> Iterator[torch.nn.Module]:
        """Lend `module`, or a copy that shares its frozen parameters; `NotParallel` for buffers or an accelerator."""
        if next(module.buffers(), None) is not None or next(module.parameters()).device.type != "cpu":
            raise NotParallel
        with self.lock:
            mine, spare = module, self.copies[module]
            if not self.in_use.isdisjoint(_trained(module)):
                mine = spare.pop() if spare else _copy(module)
            self.in_use |= _trained(mine)
        try:
            yield mine
        finally:
            with self.lock:
                self.in_use -= _trained(mine)
                if mine is not module:
                    spare.append(mine)


def _trained(module: torch.nn.Module) -> set[torch.nn.Parameter]:
    return {p for p in module.parameters() if p.requires_grad}


def _copy(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy of a module, without a copy of its parameters' memory."""
    own = {id(p): torch.nn.Parameter(p.data) if p.requires_grad else p for p in module.parameters()}
    return deepcopy(module, own)


def leaves(loss: torch.Tensor) -> set[torch.Tensor | None]:
    """Return the parameters that a loss is differentiated by, and None."""
    found, seen, ahead = set(), set(), [loss.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found.add(getattr(node, "variable", None))
        ahead += [before for before, _ in node.next_functions]
    return found


def _generators() -> bytes:
    """Return the states of PyTorch's and NumPy's generators, which all threads share."""
    return pickle.dumps((torch.get_rng_state().numpy(), np.random.get_state()))


def _set_generators(states: bytes) -> None:
    of_torch, of_numpy = pickle.loads(states)
    torch.set_rng_state(torch.from_numpy(of_torch))
    np.random.set_state(of_numpy)
