"""Fingerprints: digests of what determines a run."""

import dataclasses
import inspect
import json
import marshal
import pickle
import sys
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from turnout.core.field_checks import is_array


def fingerprint(*what: Any) -> str:
    """Return a digest of records, tables, arrays and numbers; of classes of the user's own their code counts too."""
    return sha256(json.dumps([described(one) for one in what]).encode()).hexdigest()


def described(value: Any) -> Any:
    """Return `value` as what JSON can hold."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: described(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"class": type(value).__qualname__, "code": code_of(type(value)), **fields}
    if isinstance(value, dict):
        return {str(key): described(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [described(part) for part in value]
    if is_array(value):
        array = np.asarray(value)
        return [str(array.dtype), array.shape, sha256(np.ascontiguousarray(array).tobytes()).hexdigest()]
    return [type(value).__qualname__, sha256(_content(value)).hexdigest()]


@cache
def code_of(own: type | Callable) -> str | None:
    """Return a digest of the code of a user's class or function: of its file, or of itself in a script; None for ours."""
    if own.__module__.partition(".")[0] == "turnout":
        return None
    file = getattr(sys.modules.get(own.__module__), "__file__", None)
    if file is not None and own.__module__ != "__main__" and not own.__module__.startswith("__mp_main"):
        return sha256(Path(file).read_bytes()).hexdigest()
    try:
        return sha256(inspect.getsource(own).encode()).hexdigest()
    except (OSError, TypeError):
        functions = [part.__code__ for part in (own, *vars(own).values()) if hasattr(part, "__code__")]
        return sha256(b"".join(map(marshal.dumps, functions))).hexdigest()


def _content(value: Any) -> bytes:
    """Return what an object that is neither a record nor an array is made of: the code of a function, or its pickle."""
    if hasattr(value, "__code__"):
        return marshal.dumps(value.__code__)
    return pickle.dumps(value)
