"""TOML files: their tables, and the lines of their keys."""

import re
import tomllib
from pathlib import Path
from typing import Any

from turnout.core.errors import UserError


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text and the tables of a TOML file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}): give a TOML file") from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {str(error)[0].lower()}{str(error)[1:]}") from None


def line_of(text: str, path: tuple) -> int | None:
    """Return the line of the key at `path`, or of its table; a number in `path` is an index in a list of tables [[name]].

    Args:
        text: The file.
        path: Names of the tables and the key.
    """
    names, indices = [], {}
    for part in path:
        if isinstance(part, str):
            names += part.split(".")
        else:
            indices[tuple(names)] = part
    table, result, depth = [], None, 0
    seen = dict.fromkeys(indices, -1)
    for line, content in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\[?\s*([\w.\"' -]+?)\s*\]?\]", content)
        if header:
            table = [part.strip(" \"'") for part in header[1].split(".")]
            for name in seen:
                inner = len(name) > len(table) and list(name[: len(table)]) == table
                seen[name] = -1 if inner else seen[name] + (list(name) == table)
            here = all(seen[name] == index for name, index in indices.items() if list(name) == table[: len(name)])
            if here and names and table == names[: len(table)] and len(table) > depth:
                result, depth = line, len(table)
            elif here and names == table[: len(names)] and result is None:
                result = line
            continue
        key = re.match(r"\s*([\w.\"'-]+)\s*=", content)
        here = all(seen[name] in (index, -1) for name, index in indices.items())
        full = [*table, *(part.strip("\"'") for part in key[1].split("."))] if key and here else []
        if full and full == names:
            return line
        if full and full == names[: len(full)] and len(full) > depth:
            result, depth = line, len(full)
    return result


def flatten(table, prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one with dotted names."""
    flat = {}
    for key, value in table.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
