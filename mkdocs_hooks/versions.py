"""The versions of a site: `python mkdocs_hooks/versions.py FOLDER`, where each has a folder of its own."""

import json
import sys
from pathlib import Path

from packaging.version import Version

FIRST = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>turnout</title>
<meta http-equiv="refresh" content="0; url={latest}/index.html">
<a href="{latest}/index.html">turnout {latest}</a>
</html>
"""


def versions(site: Path) -> list[str]:
    """Return the versions that `site` has, the latest first."""
    return sorted((page.parent.name for page in site.glob("*/index.html")), key=Version, reverse=True)


def join(site: Path) -> None:
    """Write what the selector of every version reads, and a first page that leads to the latest."""
    names = versions(site)
    (site / "versions.json").write_text(json.dumps([{"version": name, "title": name, "aliases": []} for name in names], indent=1))
    (site / "index.html").write_text(FIRST.format(latest=names[0]))


if __name__ == "__main__":
    join(Path(sys.argv[1]))
