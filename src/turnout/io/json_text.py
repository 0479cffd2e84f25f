"""JSON without what it has no word for."""

import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np


def finite(facts: Any) -> Any:
    """Return facts with None in the place of numbers that JSON has not: NaN and infinity."""
    if isinstance(facts, dict):
        return {key: finite(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [finite(value) for value in facts]
    return None if isinstance(facts, float) and not math.isfinite(facts) else facts


def plain(value: Any) -> Any:
    """Return NumPy's arrays and numbers, dates, times and paths as values of JSON; for `default` of `json.dumps`."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot write a {type(value).__name__} as JSON")
