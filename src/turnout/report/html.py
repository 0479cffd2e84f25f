"""Pages: their templates, and JSON inside them."""

import json
from typing import Any

import jinja2

TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("turnout.report", "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
)


def script_json(content: Any) -> str:
    """Return JSON that is safe inside a script element."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
