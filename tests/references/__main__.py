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


def same(found, wanted) -> bool:
    """Whether two contents are the same but for rounding, which differs from processor to processor."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and [*found] == [*wanted] and all(same(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(same, found, wanted))
    return found == wanted or (isinstance(wanted, float) and isinstance(found, float) and abs(found - wanted) < 1e-12)


def differing() -> dict[str, str]:
    """The content of the files that are not what the programs say; none for a file without a program."""
    found = {path.name: json.loads(path.read_text()) for path in FILES.glob("*.json")}
    wanted = {f"{name}.json": text(document(case)) for name, case in CASES.items()}
    changed = {name: content for name, content in wanted.items() if not same(found.get(name), json.loads(content))}
    return changed | dict.fromkeys(found.keys() - wanted.keys(), "")


def main(arguments: list[str]) -> int:
    changed = differing()
    if "--check" in arguments:
        print("\n".join(sorted(changed)) or "all files are what the programs say")
        return bool(changed)
    FILES.mkdir(exist_ok=True)
    for name, content in changed.items():
        (FILES / name).write_text(content) if content else (FILES / name).unlink()
    print(f"{len(CASES)} files, {sum(path.stat().st_size for path in FILES.glob('*.json')) / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
