"""`python -m tests.references` writes the test vectors anew; with --check it says which files differ from the programs."""

import json
import sys
from pathlib import Path

from tests.references.cases import CASES, document

FILES = Path(__file__).parents[2] / "src" / "turnout" / "vectors" / "files"


def text(content: dict) -> str:
    """JSON with one line for each field, and one for each round."""
    lines = []
    for name, value in content.items():
        if name in ("rounds", "update"):
            inner = ",\n  ".join(json.dumps(part, separators=(",", ":") if name == "rounds" else None) for part in value)
            lines.append(f' "{name}": [\n  {inner}\n ]')
        else:
            lines.append(f' "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main(arguments: list[str]) -> int:
    wanted = {f"{name}.json": text(document(case)) for name, case in CASES.items()}
    if "--check" in arguments:
        found = {path.name: path.read_text() for path in FILES.glob("*.json")}
        differing = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
        print("\n".join(differing) or "all files are what the programs say")
        return bool(differing)
    FILES.mkdir(exist_ok=True)
    for path in FILES.glob("*.json"):
        path.unlink()
    for name, content in wanted.items():
        (FILES / name).write_text(content)
    print(f"{len(wanted)} files, {sum(map(len, wanted.values())) / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
