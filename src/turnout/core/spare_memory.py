"""Memory that a process needs no more, given back to the system."""

import ctypes
import gc

import jax


def drop_programs() -> None:
    """Drop all compiled programs, which take about a MiB each, and give their memory back."""
    jax.clear_caches()
    gc.collect()
    give_back()


def give_back() -> None:
    """Give the system what glibc keeps of freed memory, such as what a compilation took; another C library is left alone."""
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)
