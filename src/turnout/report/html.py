"""Pages: their templates, and JSON inside them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2

from turnout.core.errors import caution
from turnout.core.extras import MissingExtraError
from turnout.io.atomic import write

TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("turnout.report", "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)


def script_json(content: Any) -> str:
    """Return JSON that is safe inside a script element."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def write_page(path: Path, page: Callable[[], str], again: str) -> bool:
    """Write a page with charts, and return whether that could be done: without the extra "report" there is a `Caution` instead.

    Args:
        path: The file.
        page: Returns the page.
        again: The command that writes the page when the extra is installed.
    """
    try:
        content = page()
    except MissingExtraError as error:
        path.unlink(missing_ok=True)
        caution(f"{path} is not written: {error}, and {again} writes it")
        return False
    write(path, content)
    return True
