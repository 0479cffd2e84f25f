"""Running the command line as a user does: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import tomli_w

SMALL = {
    "problem": {"kind": "logistic", "data": "breast_cancer", "normalize": "columns", "mu": 0.1},
    "split": {"kind": "kmeans", "clusters": 4, "clients_per_cluster": 3},
    "sampler": {"kind": "nice", "size": 4},
    "algorithm": {"kind": "fedavg", "lr": 0.3},
    "run": {"rounds": 6},
    "target": {"metric": "distance", "below": 0.1},
}


def config(folder: Path, name: str = "made", **tables) -> Path:
    """Write the small configuration with some tables replaced."""
    path = folder / f"{name}.toml"
    path.write_text(tomli_w.dumps({**SMALL, **tables}))
    return path


def start(*arguments, **options) -> subprocess.Popen:
    """Start `turnout` with the given arguments."""
    command = [sys.executable, "-m", "turnout", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}, **options
    )


def turnout(*arguments, **options) -> tuple[int, str, str]:
    """Run `turnout` to its end: exit code, output, errors."""
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
