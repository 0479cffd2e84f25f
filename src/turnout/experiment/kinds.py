"""The classes of a table of kinds, each imported when it is looked up."""

from collections.abc import Iterator, Mapping
from importlib import import_module


class Kinds(Mapping[str, type]):
    """The class of each kind.

    Args:
        places: "module:Class" of each kind, where "module" is one of turnout's.
    """

    def __init__(self, places: dict[str, str]):
        self._places = places

    def __getitem__(self, kind: str) -> type:
        module, _, name = self._places[kind].partition(":")
        return getattr(import_module(f"turnout.{module}"), name)

    def __contains__(self, kind: object) -> bool:
        return kind in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def kind_of(self, cls: type) -> str | None:
        """Return the kind whose class is `cls`; None if there is none."""
        called = (kind for kind, place in self._places.items() if place.endswith(f":{cls.__name__}"))
        return next((kind for kind in called if self[kind] is cls), None)
