"""What is said of a package's algorithms: equal to a vector, to a named variant, or different, and where first."""

import json
import math
import tempfile
from importlib import resources
from pathlib import Path

from turnout.core.errors import UserError
from turnout.vectors.comparison import first_difference
from turnout.vectors.packages import check_version, environment, package, play, versions
from turnout.vectors.reading import families

SINGLE = 1e-5
"""Largest difference of two numbers where a package computes in single precision."""

NEAR = 1e-6
"""What differs by less than this, and by more than the tolerance, is told as rounding."""


def hold(name: str, vectors: dict[str, dict], folder: Path, timeout: float = 900.0, python: Path | None = None) -> dict:
    """Hold the vectors against a package; return its versions and a row for each family, or why it cannot be run.

    Args:
        name: Name of the package.
        vectors: The vectors by name.
        folder: Where environments are.
        timeout: Seconds that pip, and the program, may take each.
        python: The Python of an environment that has the package, in the place of one in `folder`.

    Examples:
        >>> from pathlib import Path
        >>> from turnout import vectors
        >>> from turnout.vectors.verdicts import hold
        >>> found = hold("pfllib", vectors.collection()[0], Path("cache"))
        >>> found["rows"]["scaffold-1"]["verdict"]
        'cannot'
    """
    chosen = package(name)
    result = {"name": name, "title": chosen.title, "requirements": list(chosen.requirements), "versions": {}, "failed": ""}
    groups = families(vectors)
    try:
        if python is None:
            python = environment(name, folder, timeout)
        else:
            check_version(name, python)
        result["versions"] = versions(python, chosen.requirements)
    except UserError as error:
        result["failed"] = str(error)
        why = {"verdict": "cannot", "why": str(error)}
        result["rows"] = read_rows(name, groups, result) or {family: dict(why) for family in groups}
        return result
    with tempfile.TemporaryDirectory() as scratch:
        out, early = play(python, name, vectors, Path(scratch), timeout)
    result["failed"] = early
    result["rows"] = {family: row(members, vectors, out, early) for family, members in groups.items()}
    return result


def read_rows(name: str, groups: dict, result: dict) -> dict[str, dict]:
    """Return what was read of a package that cannot be run, by family, and note its commit; nothing where it was not read.

    Args:
        name: Name of the package.
        groups: The families.
        result: What is said of the package.
    """
    file = resources.files("turnout.vectors") / "readings" / f"{name}.json"
    if not file.is_file():
        return {}
    read = json.loads(file.read_text())
    result["read"] = {key: read[key] for key in ("repository", "commit", "date")}
    absent = {"verdict": "absent", "why": read["absent"]}
    rows = {family: {"verdict": "read", **row} for family, row in read["rows"].items()}
    rows |= {family: {"verdict": "unheld"} for family in read["unheld"]}
    return {family: rows.get(family, absent) for family in groups}


def row(members: tuple[str, ...], vectors: dict[str, dict], out: dict, early: str) -> dict:
    """Return what is said of one family.

    Args:
        members: The vectors of the family.
        vectors: All vectors.
        out: What the program wrote.
        early: Why it ended early.
    """
    played = {name: out["played"][name] for name in members if name in out["played"]}
    if not played:
        if early:
            return {"verdict": "cannot", "why": early}
        return {"verdict": "absent", "why": out["absent"]}
    rows = [judged(name, one, members, vectors) for name, one in played.items()]
    # A family is as good as the worst of what was played.
    return max(rows, key=lambda row: ("equal", "unheld", "variant", "cannot", "different").index(row["verdict"]))


def judged(name: str, played: dict, members: tuple[str, ...], vectors: dict[str, dict]) -> dict:
    """Return what is said of one vector that was played: the first of the family that it equals, or where it differs.

    Args:
        name: The vector whose inputs were taken.
        played: What the program wrote of it.
        members: The vectors of the family.
        vectors: All vectors.
    """
    if "unheld" in played:
        return {"verdict": "unheld"}
    if "cannot" in played:
        return {"verdict": "cannot", "vector": name, "why": played["cannot"]}
    single = played.get("precision") == "single"
    tolerance = SINGLE if single else None
    found = {"vector": name, "note": played.get("note", ""), "precision": "single" if single else "double"}
    own = first_difference(vectors[name], played["rounds"], tolerance)
    equals = [other for other in (name, *members) if first_difference(vectors[other], played["rounds"], tolerance) is None]
    if own is None:
        status = vectors[name]["status"]
        return {"verdict": "equal" if status == "paper" else "variant", "variant": name, **found}
    if equals:
        return {"verdict": "variant", "variant": equals[0], "first": own.where, "difference": own.size, **found}
    if first_difference(vectors[name], played["rounds"], NEAR) is None:
        return {"verdict": "equal", "variant": name, **found, "precision": "rounded", "difference": own.size}
    size = own.size if math.isfinite(own.size) else None
    return {"verdict": "different", "first": own.where, "difference": size, **found}
