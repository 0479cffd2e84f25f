"""What an installation takes: `python -m benchmarks.installed` prints the packages and megabytes of turnout and of its extras."""

import tomllib
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

DECLARED = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def needed(lines: list[str]) -> set[str]:
    """Return the names of the packages that requirements need, and of those that these need."""
    found, waiting = set(), [Requirement(line) for line in lines]
    while waiting:
        one = waiting.pop()
        if (key := (canonicalize_name(one.name), frozenset(one.extras))) in found:
            continue
        found.add(key)
        further = map(Requirement, distribution(one.name).requires or [])
        waiting += [
            each for each in further if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in ("", *one.extras))
        ]
    return {name for name, _ in found}


def megabytes(names: set[str]) -> float:
    """Return the size of the files of packages, without compiled modules."""
    files = [Path(file.locate()) for name in names for file in distribution(name).files or [] if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.is_file()) / 2**20


if __name__ == "__main__":
    plain = needed(DECLARED["dependencies"])
    print(f"without extras: {len(plain)} packages, {megabytes(plain):.0f} MB")
    for extra, lines in DECLARED["optional-dependencies"].items():
        further = needed(lines) - plain
        print(f"[{extra}]: {len(further)} further packages, {megabytes(further):.0f} MB")
