"""Which trace of JAX the code that runs is in."""


def current_trace():
    """Return a value that tells the current trace of JAX from others."""
    # Slow to import.
    from jax.extend.core import get_opaque_trace_state

    return get_opaque_trace_state()
