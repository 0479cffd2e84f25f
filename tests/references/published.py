"""`python -m tests.references.published` writes the table of results/implementations.json into docs/implementations.md."""

import json
import re
from pathlib import Path

from turnout import vectors
from turnout.vectors.table import markdown

ROOT = Path(__file__).parents[2]


def main() -> None:
    result = json.loads((ROOT / "results" / "implementations.json").read_text())
    page = ROOT / "docs" / "implementations.md"
    packages = f"Found on {result['date']}, with turnout {result['turnout']} and {result['vectors']} vectors.\n\n"
    table = f"<!-- found -->\n{packages}{markdown(result, vectors.collection()[0])}<!-- end -->"
    page.write_text(re.sub(r"<!-- found -->.*<!-- end -->", lambda _: table, page.read_text(), flags=re.DOTALL))


if __name__ == "__main__":
    main()
