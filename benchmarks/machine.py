"""What the numbers were measured on and with."""

import os
import platform
from importlib.metadata import version

PACKAGES = ("jax", "jaxlib", "numba", "numpy", "scipy", "polars")


def facts() -> dict:
    """Return the processor, the cores this process may use, the system and its load before the benchmarks."""
    import jax

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": processor(),
        "cores": cores,
        "system": platform.platform(),
        "backend": jax.default_backend(),
        "load": list(os.getloadavg()),
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, turnout and the packages that decide its speed."""
    import turnout

    return {
        "python": platform.python_version(),
        "turnout": turnout.__version__,
        **{package: version(package) for package in PACKAGES},
    }


def processor() -> str:
    """Return the processor's name."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
