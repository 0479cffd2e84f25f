"""`python -m tests.references` writes the test vectors anew; with --check it says which files differ from the programs.

The last digits of a product of matrices depend on the processor, so that numbers are the same to 1e-12.
"""

import json
import math
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


def same(one, other) -> bool:
    """Whether two parts of a file say the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] == [*other] and same([*one.values()], [*other.values()])
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=0, abs_tol=1e-12)
    return type(one) is type(other) and one == other


def differing() -> list[str]:
    """The files that are missing, too many, or do not say what the programs do."""
    wanted = {name: document(case) for name, case in CASES.items()}
    found = {path.stem: json.loads(path.read_text()) for path in FILES.glob("*.json")}
    return sorted(name for name in {*wanted, *found} if not same(json.loads(json.dumps(wanted.get(name))), found.get(name)))


def main(arguments: list[str]) -> int:
    names = differing()
    if "--check" in arguments:
        print("\n".join(names) or "all files are what the programs say")
        return bool(names)
    for name in names:
        path = FILES / f"{name}.json"
        if name in CASES:
            path.write_text(text(document(CASES[name])))
        else:
            path.unlink()
    print(f"{len(names)} files written or removed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
