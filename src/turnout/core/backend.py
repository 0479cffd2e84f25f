"""The kind of device on which JAX computes, and its memory."""

import jax


def on_cpu() -> bool:
    """Return whether JAX computes on a CPU, where batching clients saves no time."""
    return jax.default_backend() == "cpu"


def device_bytes() -> int | None:
    """Return how many bytes of an accelerator's memory JAX may use; None on a CPU, and where the device does not tell."""
    known = None if on_cpu() else jax.local_devices()[0].memory_stats()
    return (known or {}).get("bytes_limit")
