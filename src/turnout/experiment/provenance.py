"""What numbers were made with: versions of packages, the commit of turnout, and the machine."""

import os
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NotRequired

import jax
from typing_extensions import TypedDict

from turnout.core.backend import on_cpu

PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "scikit-learn", "optax", "polars")
"""The packages that numbers depend on, some of them where they are installed."""


class Provenance(TypedDict):
    """The commit of turnout, and the machine; summaries of before have neither."""

    commit: NotRequired[str]
    machine: NotRequired[str]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed ones of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def provenance() -> Provenance:
    """Return the commit of turnout, where it is known, and the machine."""
    made_by = commit()
    return {"commit": made_by, "machine": machine()} if made_by else {"machine": machine()}


@cache
def commit(folder: Path = Path(__file__).parent) -> str | None:
    """Return the commit of the git checkout that has turnout, with "-dirty" where files of it are changed; None without one.

    Args:
        folder: A folder of turnout.
    """
    # A package that is installed below somebody's checkout is none of its files.
    if not _git(folder, "ls-files"):
        return None
    return _git(folder, "describe", "--always", "--dirty", "--exclude=*", "--abbrev=10") or None


@cache
def machine() -> str:
    """Return the processor, the number of cores, and the accelerator if there is one."""
    name = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    accelerator = [] if on_cpu() else [jax.devices()[0].device_kind]
    return ", ".join([name, f"{os.cpu_count()} cores", *accelerator])


def _git(folder: Path, *words: str) -> str:
    """Return what git says of `folder`; nothing where it fails or is not there."""
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
