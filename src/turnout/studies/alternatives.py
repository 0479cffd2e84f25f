"""The values of a swept key, and their names."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from turnout.studies.sources import Place, Source


@dataclass(frozen=True)
class Alternative:
    """A value of a swept key, and what tables show for it."""

    value: Any
    shown: Any


def alternatives_of(source: Source, key: str, values: Any, place: Place) -> list[Alternative]:
    """Return the values of a swept key; `UserError` where they are no list, or two of them have one name."""
    if not isinstance(values, list | tuple) or not values:
        raise source.error(place, f"grid {key} needs a list of values")
    alternatives = [_alternative(value) for value in values]
    shown = [json.dumps(one.shown) for one in alternatives]
    double = next((name for name in shown if shown.count(name) > 1), None)
    if double is not None:
        raise source.error(place, f"two alternatives are called {double}: give a table name = '...', or leave one out")
    return alternatives


def _alternative(value: Any) -> Alternative:
    if isinstance(value, dict):
        name = value.get("name", value.get("kind"))
        rest = {key: part for key, part in value.items() if key != "name"}
        return Alternative(rest, name if name is not None else words(rest))
    if isinstance(value, list | tuple):
        return Alternative(list(value), json.dumps(list(value)))
    if dataclasses.is_dataclass(value):
        return Alternative(value, type(value).__name__)
    return Alternative(value, value)


def words(value: Any) -> str:
    """Write the value of a swept key."""
    if isinstance(value, dict):
        return ", ".join(f"{key} = {words(part)}" for key, part in value.items())
    return str(value)
