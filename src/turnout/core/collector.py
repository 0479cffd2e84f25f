"""The collector of garbage, which looks again and again through many objects that stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Look for no cycles of garbage inside: imports and traces make many objects, and a look through them all takes 0.1 s."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
