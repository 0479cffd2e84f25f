"""When `make nightly` and `make everything` last passed, by `python -m tests.helpers.played`.

`python -m tests.helpers.played COMMAND REPORT` notes a run that passed, from pytest's report.
"""

import json
import subprocess
import sys
import xml.etree.ElementTree as xml
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "played.json"
COMMANDS = "nightly", "everything"


def record() -> dict[str, dict]:
    """Return what was noted for each command."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def note(command: str, report: Path) -> None:
    """Note the time, the commit, the number of cases and the minutes of a run that passed, from its report (JUnit XML)."""
    suite = next(xml.parse(report).iter("testsuite"))
    passed = {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": git("describe", "--always", "--dirty", "--abbrev=10"),
        "cases": int(suite.attrib["tests"]),
        "skipped": int(suite.attrib["skipped"]),
        "minutes": round(float(suite.attrib["time"]) / 60),
    }
    RECORD.write_text(json.dumps(record() | {command: passed}, indent=1) + "\n")


def told(command: str) -> str:
    """Say when all cases of a command last passed."""
    if command not in record():
        return f"make {command} has never passed"
    passed = record()[command]
    return (
        f"make {command} last passed on {passed['date']} at commit {passed['commit']}: {passed['cases']} cases, "
        f"{passed['skipped']} of them skipped, in {passed['minutes']} minutes"
    )


def git(*words: str) -> str:
    """Return what git says."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    if sys.argv[1:]:
        note(sys.argv[1], Path(sys.argv[2]))
    print("\n".join(map(told, COMMANDS)))
