"""When `make everything` last passed, by `python -m tests.helpers.everything`; a report of pytest as its argument is noted."""

import json
import subprocess
import sys
import xml.etree.ElementTree as xml
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "everything.json"


def note(report: Path) -> None:
    """Note the time, the commit, the number of cases and the minutes of a run that passed, from its report (JUnit XML)."""
    suite = next(xml.parse(report).iter("testsuite"))
    record = {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": git("describe", "--always", "--dirty", "--abbrev=10"),
        "cases": int(suite.attrib["tests"]),
        "skipped": int(suite.attrib["skipped"]),
        "minutes": round(float(suite.attrib["time"]) / 60),
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


def told() -> str:
    """Say when all cases last passed."""
    if not RECORD.exists():
        return "make everything has never passed"
    record = json.loads(RECORD.read_text())
    return (
        f"make everything last passed on {record['date']} at commit {record['commit']}: {record['cases']} cases, "
        f"{record['skipped']} of them skipped, in {record['minutes']} minutes"
    )


def git(*words: str) -> str:
    """Return what git says."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    for path in sys.argv[1:]:
        note(Path(path))
    print(told())
