"""Classes of a user's own, which a configuration names as "package.module:Class" or "file.py:Class"."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from turnout.core.errors import UserError

_NAMES: dict[type, str] = {}
"""The name under which each class was found, a file with its whole path."""


def named_class(name: str, folder: Path) -> type:
    """Return the class called `name`.

    Args:
        name: "package.module:Class", or "file.py:Class" with a path relative to `folder`.
        folder: Where files are looked up.

    Raises:
        UserError: If there is no such module, file or class, or importing it fails.
    """
    place, _, attribute = name.rpartition(":")
    cls = named_object(name, folder)
    if not isinstance(cls, type):
        raise UserError(f"{place} has no class {attribute!r}: write the name of one of its classes after the colon")
    _NAMES[cls] = f"{(folder / place).resolve()}:{attribute}" if place.endswith(".py") else name
    return cls


def named_function(name: str, folder: Path) -> Callable:
    """Return the function called `name`.

    Args:
        name: "package.module:function", or "file.py:function" with a path relative to `folder`.
        folder: Where files are looked up.

    Raises:
        UserError: If there is no such module, file or function, or importing it fails.
    """
    function = named_object(name, folder)
    if not callable(function):
        place, _, attribute = name.rpartition(":")
        raise UserError(f"{place or name!r} has no function {attribute!r}: write file.py:function or package.module:function")
    return function


def named_object(name: str, folder: Path) -> Any:
    """Return what a module or a file has under the name after the colon; None where it has nothing.

    Args:
        name: "package.module:name", or "file.py:name" with a path relative to `folder`.
        folder: Where files are looked up.

    Raises:
        UserError: If there is no such module or file, or importing it fails.
    """
    place, _, attribute = name.rpartition(":")
    try:
        module = _of_file((folder / place).resolve()) if place.endswith(".py") else import_from_here(place)
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(f"{place} cannot be imported ({reason}): give a module on Python's path, or a file here") from None
    return getattr(module, attribute, None)


def name_of(cls: type) -> str:
    """Return the name under which `named_class` finds `cls` from any folder."""
    return _NAMES.get(cls) or f"{cls.__module__}:{cls.__qualname__}"


def found_classes() -> list[str]:
    """Return the names of all classes found so far, with which another process finds them too."""
    return list(_NAMES.values())


def import_from_here(name: str) -> ModuleType:
    """Import a module from Python's path or from the current folder."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)


def _of_file(path: Path) -> ModuleType:
    """Import the Python file at `path`, once."""
    # Annotations are looked up in the module, so it is registered under a name of its own.
    name = f"turnout_file_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UserError("there is no such file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
