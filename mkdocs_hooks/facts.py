"""What takes long to find out about an algorithm, kept in turnout's cache folder until code that it depends on changes."""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import turnout
from turnout.core.kept import digest, kept

SOURCES = Path(turnout.__file__).parent
HOOKS = Path(__file__).parent

ABOVE = ("algorithms", "cli", "export", "federation", "flower", "papers", "planner", "studies", "testing")
"""Packages of turnout that runs and estimates do not import, and those of which they import parts."""

PACKAGES = ("jax", "jaxlib", "numpy", "equinox", "scikit-learn")
"""Packages whose versions matter."""


def fact(what: str, name: str, cls: type, text: str, compute: Callable[[], Any]) -> Any:
    """Return compute(), numbers and texts as JSON has them, or what is kept of an earlier call.

    Args:
        what: What is computed.
        name: The name of the algorithm.
        cls: Its class.
        text: The lines that make the algorithm, and what else of it is computed.
        compute: Computes it.
    """

    def content() -> list[np.ndarray]:
        return [np.frombuffer(json.dumps(compute()).encode(), np.uint8)]

    (kept_content,) = kept(f"site-{what}-{name.lower()}", [text, _shared(), _own(cls, text)], PACKAGES, content)
    return json.loads(kept_content.tobytes())


@cache
def _shared() -> str:
    """Return a digest of the code that all algorithms share."""
    files = sorted(path for path in SOURCES.rglob("*.py") if path.relative_to(SOURCES).parts[0] not in ABOVE)
    return digest(*(path.read_bytes() for path in [*files, *sorted(HOOKS.glob("*.py"))]))


def _own(cls: type, text: str) -> str:
    """Return a digest of the files of an algorithm, of those that its example names, and of all that these import."""
    named = [getattr(turnout, name, None) for name in re.findall(r"\bt(?:urnout)?\.(\w+)", text)]
    left = [one.__module__ for one in (cls, *named) if isinstance(one, type) and one.__module__.startswith("turnout.algorithms.")]
    read: dict[str, str] = {}
    while left:
        module = left.pop()
        if module not in read:
            read[module] = (SOURCES.parent / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
            left += re.findall(r"^\s*from (turnout\.algorithms\.\w+) import", read[module], flags=re.MULTILINE)
    return digest(*(part for pair in sorted(read.items()) for part in pair))
