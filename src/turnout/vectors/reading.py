"""Reading test vectors."""

import json
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path

from turnout.core.errors import UserError, unknown

FORMAT = 1
"""The version of the files' form."""

FIELDS = ("name", "family", "algorithm", "variant", "status", "update", "problem", "parameters", "tolerance", "start", "rounds")


@cache
def names() -> tuple[str, ...]:
    """Return the names of all vectors, in order of the alphabet.

    Examples:
        >>> from turnout import vectors
        >>> "scaffold-2" in vectors.names()
        True
    """
    files = (resources.files("turnout.vectors") / "files").iterdir()
    return tuple(sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json")))


def load(name: str | Path) -> dict:
    """Return the content of a vector.

    Args:
        name: Its name, or the path of a file.

    Raises:
        UserError: There is no such vector, or the file is none, or has a newer form than this turnout reads.

    Examples:
        >>> from turnout import vectors
        >>> vector = vectors.load("fedavg")
        >>> vector["rounds"][0]["cohort"], vector["parameters"]
        ([2, 3], {'lr': 0.2, 'local_steps': 2})
    """
    if isinstance(name, str) and not name.endswith(".json"):
        if name not in names():
            raise unknown("test vector", name, names())
        text = (resources.files("turnout.vectors") / "files" / f"{name}.json").read_text()
        return read(text, name)
    try:
        return read(Path(name).read_text(), str(name))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: cannot be read ({error}): give the file of a test vector") from None


def read(text: str, where: str) -> dict:
    """Return the vector in a `text`; `UserError` where it is none, or of a newer form.

    Args:
        text: JSON.
        where: What the error calls it.
    """
    try:
        vector = json.loads(text)
        form = vector["format"]
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{where} is no test vector: give a JSON file with the field format") from None
    if form != FORMAT:
        raise UserError(f"{where} has the form {form!r}, and this turnout reads the form {FORMAT}: use a newer turnout")
    missing = [field for field in FIELDS if field not in vector]
    if missing:
        raise UserError(f"{where} is no whole test vector: it lacks {', '.join(missing)}")
    return vector


def collection(folder: Path | None = None) -> tuple[dict[str, dict], list[str]]:
    """Return all vectors by name, and a sentence for each file that is none which this turnout reads.

    Args:
        folder: A folder with JSON files in the place of turnout's own vectors.

    Raises:
        UserError: The folder has no vector.
    """
    if folder is None:
        return {name: load(name) for name in names()}, []
    found, refused = {}, []
    for path in sorted(folder.glob("*.json")):
        try:
            vector = load(path)
        except UserError as error:
            refused.append(str(error))
        else:
            found[vector["name"]] = vector
    if not found:
        raise UserError(f"{folder} has no test vector that this turnout reads: give a folder with some")
    return found, refused


def families(vectors: dict[str, dict] | None = None) -> dict[str, tuple[str, ...]]:
    """Return the names of the vectors of each family: what its paper says first, then open choices and deviations.

    Args:
        vectors: The vectors; default: turnout's own.

    Examples:
        >>> from turnout import vectors
        >>> vectors.families()["scaffold-1"]
        ('scaffold-1', 'scaffold-1-no-fraction')
    """
    vectors = collection()[0] if vectors is None else vectors
    ranks = ("paper", "open", "deviation")
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(vectors, key=lambda name: (ranks.index(vectors[name]["status"]), name)):
        family = vectors[name]["family"]
        found[family] = (*found.get(family, ()), name)
    return found


@cache
def missing() -> dict[str, str]:
    """Return why algorithms of the registry have no vector yet, by kind.

    Examples:
        >>> from turnout.vectors.reading import missing
        >>> "fedavg" in missing()
        False
    """
    return tomllib.loads((resources.files("turnout.vectors") / "missing.toml").read_text())
