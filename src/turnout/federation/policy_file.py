"""Reading the policy of a site."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from turnout.core.errors import unknown
from turnout.experiment.config import Reader
from turnout.experiment.registry import TABLES
from turnout.experiment.toml_file import read_toml
from turnout.federation.policy import Policy


def read_policy(path: Path) -> Policy:
    """Read the policy in the file `path`; `UserError` with its line for the first mistake."""
    text, tables = read_toml(path)
    reader = Reader(str(path), text, tables)
    policy = reader.plain(Policy, (), tables)
    for kind, keys in (policy.ranges or {}).items():
        _check_ranges(reader, kind, keys)
    return policy


def _check_ranges(reader: Reader, kind: str, keys: Any) -> None:
    place = ("ranges", kind)
    classes = [kinds[kind] for kinds in TABLES.values() if kind in kinds]
    if not classes and ":" not in kind:
        raise reader.error(place, str(unknown("kind", kind, {name for kinds in TABLES.values() for name in kinds})))
    if not isinstance(keys, dict):
        raise reader.error(place, f"[ranges.{kind}] is a table of keys, each with a smallest and a largest value")
    known = {field.name for cls in classes for field in fields(cls)}
    for key, limits in keys.items():
        if known and key not in known:
            raise reader.error((*place, key), str(unknown("key", key, known)))
        numbers = isinstance(limits, list) and len(limits) == 2 and all(type(limit) in (int, float) for limit in limits)
        if not numbers or not limits[0] <= limits[1]:
            raise reader.error((*place, key), f"a range is [smallest, largest], but this is {limits}")
