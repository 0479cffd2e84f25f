"""The packages that test vectors are held against, each in an environment of its own."""

import json
import subprocess
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from turnout.core.errors import UserError, unknown
from turnout.vectors import environments


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
    python = environments.environment(where, chosen.requirements, timeout, chosen.python)
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
        done = subprocess.run(
            [str(python), "-c", code, *names], capture_output=True, text=True, timeout=60, env=environments.variables()
        )
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
            cwd=folder, capture_output=True, text=True, timeout=timeout, env=environments.variables(),
        )  # fmt: skip
        if done.returncode:
            early = f"{path.name} failed: {environments.reason(done.stderr) or f'exit code {done.returncode}'}"
    except subprocess.TimeoutExpired:
        early = f"{path.name} took longer than {timeout:g} s: give it more with --timeout"
    try:
        return json.loads(out.read_text()), early
    except (OSError, ValueError):
        return {"played": {}, "absent": ""}, early or f"{path.name} wrote nothing"
