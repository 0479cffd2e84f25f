"""Environments of other packages: each has a Python of its own, and is made where it is first needed."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from turnout.core.errors import UserError

LONGEST = 300
"""The most letters of what a command said that an error tells."""


def environment(
    where: Path, requirements: Sequence[str], timeout: float, least: tuple[int, int] = (3, 11), alone: Sequence[str] = ()
) -> Path:
    """Return the Python of an environment, which is made unless it is there with the same requirements.

    Args:
        where: Its folder.
        requirements: What pip installs.
        timeout: Seconds that pip may take.
        least: The least version of Python.
        alone: What pip installs afterwards, without dependencies and whatever Python it asks for.

    Raises:
        UserError: There is no such Python, pip fails or takes longer, or the disk is full.
    """
    python, done = where / "bin" / "python", where / "installed.json"
    content = json.dumps([*requirements, *alone])
    if done.is_file() and done.read_text() == content:
        return python
    shutil.rmtree(where, ignore_errors=True)
    where.parent.mkdir(parents=True, exist_ok=True)
    run([interpreter(least), "-m", "venv", str(where)], timeout, "python -m venv")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, *requirements], timeout, f"pip install {' '.join(requirements)}")
    if alone:
        run([*pip, "--no-deps", "--ignore-requires-python", *alone], timeout, f"pip install {' '.join(alone)}")
    done.write_text(content)
    return python


def interpreter(least: tuple[int, int]) -> str:
    """Return a Python of at least a version: this one, or one on the path.

    Args:
        least: The version.

    Raises:
        UserError: There is none.
    """
    if sys.version_info[:2] >= least:
        return sys.executable
    for minor in range(least[1], least[1] + 4):
        found = shutil.which(f"python{least[0]}.{minor}")
        if found and subprocess.run([found, "-c", "import venv"], capture_output=True).returncode == 0:
            return found
    raise UserError(
        f"it needs Python {least[0]}.{least[1]}, and there is no python{least[0]}.{least[1]} on the path: install one"
    )


def variables() -> dict[str, str]:
    """Return the environment variables of programs there, which find nothing of this Python."""
    left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    return {name: value for name, value in os.environ.items() if name not in left_out} | {"CUDA_VISIBLE_DEVICES": ""}


def run(command: list[str], timeout: float, what: str) -> None:
    """Run a command.

    Args:
        command: The command.
        timeout: Seconds that it may take.
        what: What an error calls it.

    Raises:
        UserError: It fails, with the line that says why, or takes longer.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=variables())
    except subprocess.TimeoutExpired:
        raise UserError(f"{what} took longer than {timeout:g} s: give it more time") from None
    if done.returncode:
        raise UserError(f"{what} failed: {reason(done.stderr) or reason(done.stdout) or 'no output'}")


def reason(text: str) -> str:
    """Return the line that tells why a command failed: the last one, of those that begin with ERROR if some do."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or [""])[-1][:LONGEST]
