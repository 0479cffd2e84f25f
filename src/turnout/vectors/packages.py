"""The packages that test vectors are held against, each in an environment of its own."""

import json
import os
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from turnout.core.errors import UserError, unknown


class Package(NamedTuple):
    """A package.

    Args:
        title: Its name for people.
        requirements: What pip installs, with versions, its own first; none where pip has it not.
        program: The program that plays vectors with it.
        python: The least version of Python.
        why: Why it cannot be run, where pip has it not.
    """

    title: str
    requirements: tuple[str, ...]
    program: str = ""
    python: tuple[int, int] = (3, 11)
    why: str = ""


TORCH = "torch==2.13.0"

PACKAGES = {
    "flower": Package("Flower", ("flwr==1.41.0", "numpy"), "play_flower.py"),
    "nvflare": Package("NVFlare", ("nvflare==2.9.0", TORCH), "play_nvflare.py"),
    "decent-bench": Package("decent-bench", ("decent-bench==0.3.0",), "play_decent_bench.py", (3, 13)),
    "fluke": Package("fluke", ("fluke-fl==0.8.1", TORCH), "play_fluke.py"),
    "pfl": Package("pfl-research", ("pfl==0.6.0", TORCH), "play_pfl.py"),
    "fedlab": Package("FedLab", ("fedlab==1.3.0", TORCH), "play_fedlab.py"),
    "pfllib": Package("PFLlib", (), why="it is not on PyPI: its source was read"),
}
"""The packages by the name that `--against` takes."""


def package(name: str) -> Package:
    """Return a package by name; `UserError` where it is not known."""
    if name not in PACKAGES:
        raise unknown("package", name, PACKAGES)
    return PACKAGES[name]


def program(name: str) -> Path:
    """Return the path of a program that plays vectors."""
    return Path(str(resources.files("turnout.vectors"))) / "adapters" / name


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
        if found and _succeeds([found, "-c", "import venv"]):
            return found
    raise UserError(
        f"it needs Python {least[0]}.{least[1]}, and there is no python{least[0]}.{least[1]} on the path: install one"
    )


def environment(name: str, folder: Path, timeout: float) -> Path:
    """Return the Python of the environment of a package, which is made in `folder` where it is not there.

    Args:
        name: Name of the package.
        folder: Where environments are.
        timeout: Seconds that pip may take.

    Raises:
        UserError: pip fails or takes longer, the disk is full, or the environment has another version of the package.
    """
    chosen = package(name)
    if not chosen.requirements:
        raise UserError(chosen.why)
    where = folder / f"{name}-{chosen.requirements[0].partition('==')[2]}"
    python, done = where / "bin" / "python", where / "installed.json"
    if not done.exists():
        if where.exists():
            shutil.rmtree(where)
        where.parent.mkdir(parents=True, exist_ok=True)
        _run([interpreter(chosen.python), "-m", "venv", str(where)], timeout, "python -m venv")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        _run([*pip, *chosen.requirements], timeout, f"pip install {' '.join(chosen.requirements)}")
        done.write_text(json.dumps(chosen.requirements))
    check_version(name, python)
    return python


def versions(python: Path, requirements: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of the requirements in an environment, and that of its Python.

    Args:
        python: The Python of the environment.
        requirements: The requirements.
    """
    names = [requirement.partition("==")[0] for requirement in requirements]
    code = (
        "import json, platform, sys; from importlib import metadata\n"
        "def version(name):\n"
        "    try:\n        return metadata.version(name)\n"
        "    except metadata.PackageNotFoundError:\n        return ''\n"
        "print(json.dumps({name: version(name) for name in sys.argv[1:]} | {'python': platform.python_version()}))"
    )
    try:
        done = subprocess.run([str(python), "-c", code, *names], capture_output=True, text=True, timeout=60, env=_environ())
        return json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise UserError(f"{python} does not run: delete its folder, and it is made anew") from None


def check_version(name: str, python: Path) -> None:
    """Raise `UserError` where an environment has another version of a package than the one that its program is for.

    Args:
        name: Name of the package.
        python: The Python of the environment.
    """
    wanted = package(name).requirements
    own, _, version = wanted[0].partition("==")
    found = versions(python, wanted)[own]
    if found != version:
        has = f"{own} {found}" if found else f"no {own}"
        raise UserError(f"{python} has {has}, and the program is for {own} {version}: delete its folder, or give another one")


def _environ() -> dict[str, str]:
    """Return the environment of programs there, which find nothing of this Python."""
    left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    return {name: value for name, value in os.environ.items() if name not in left_out} | {"CUDA_VISIBLE_DEVICES": ""}


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def _run(command: list[str], timeout: float, what: str) -> None:
    """Run a command; `UserError` with its last line where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=_environ())
    except subprocess.TimeoutExpired:
        raise UserError(f"{what} took longer than {timeout:g} s: give it more with --timeout") from None
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no output"]
        raise UserError(f"{what} failed: {last[0][:200]}")


def play(python: Path, name: str, vectors: dict[str, dict], folder: Path, timeout: float) -> tuple[dict, str]:
    """Let the program of a package play vectors; return what it wrote, and why it ended early, empty where it did not.

    Args:
        python: The Python of the environment.
        name: Name of the package, or the path of a program.
        vectors: The vectors by name.
        folder: An empty folder for its files.
        timeout: Seconds that it may take.
    """
    given, out = folder / "in.json", folder / "out.json"
    given.write_text(json.dumps({"vectors": vectors}))
    path = Path(name) if name.endswith(".py") else program(package(name).program)
    early = ""
    try:
        done = subprocess.run(
            [str(python), "-W", "ignore", str(path), str(given), str(out)],
            cwd=folder, capture_output=True, text=True, timeout=timeout, env=_environ(),
        )  # fmt: skip
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            early = f"{path.name} failed: {last[0][:200]}"
    except subprocess.TimeoutExpired:
        early = f"{path.name} took longer than {timeout:g} s: give it more with --timeout"
    try:
        return json.loads(out.read_text()), early
    except (OSError, ValueError):
        return {"played": {}, "absent": ""}, early or f"{path.name} wrote nothing"
