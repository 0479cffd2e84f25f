"""Memory that a process needs no more, given back to the system."""

import ctypes
import gc
from functools import cache

import jax
from jax import monitoring

COMPILED = "/jax/core/compile/backend_compile_duration"
"""What JAX calls the end of a compilation."""


def drop_programs() -> None:
    """Drop all compiled programs, which take about a MiB each, and give their memory back."""
    jax.clear_caches()
    gc.collect()
    give_back()


def give_back() -> None:
    """Give the system what glibc keeps of freed memory, such as what a compilation took; another C library is left alone."""
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)


@cache
def give_back_after_compiling() -> None:
    """From now on, give back what each compilation leaves, a hundred MiB after a large one, before its program needs memory."""
    monitoring.register_event_duration_secs_listener(lambda event, *_, **__: give_back() if event == COMPILED else None)
