"""When all cases were last played whole: `python -m tests.helpers.everything` tells, and with `--run` plays and notes them."""

import argparse
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests" / "everything.json"


def main() -> int:
    """Play all cases if asked to, and tell when they last passed; the exit code is that of the tests."""
    parser = argparse.ArgumentParser(prog="python -m tests.helpers.everything", description=__doc__)
    parser.add_argument("--run", action="store_true", help="play all cases, which takes hours, and note that they passed")
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 1) + 1, help="processes")
    options = parser.parse_args()
    code = play(options.workers) if options.run else 0
    print(told(json.loads(RECORD.read_text())) if RECORD.exists() else "all cases were never played whole")
    return code


def play(workers: int) -> int:
    """Play all cases and note the commit, the time and their number if all pass; return pytest's exit code."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "everything", "--numprocesses", str(workers), "--dist", "loadfile"]
        code = subprocess.run([*command, f"--junit-xml={report}"], cwd=ROOT).returncode
        if code == 0:
            suite = next(xml.parse(report).iter("testsuite"))
            RECORD.write_text(json.dumps(facts(suite), indent=1) + "\n")
    return code


def facts(suite: xml.Element) -> dict:
    """Return what is noted of a run that passed."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": commit,
        "tests": int(suite.get("tests", 0)),
        "skipped": int(suite.get("skipped", 0)),
        "minutes": round(float(suite.get("time", 0)) / 60),
    }


def told(record: dict) -> str:
    """Say when all cases last passed."""
    since = subprocess.run(
        ["git", "rev-list", "--count", f"{record['commit']}..HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    later = f", {since} commits ago" if since else ""
    return (
        f"all {record['tests']} cases, {record['skipped']} of them skipped, last passed on {record['date']} in "
        f"{record['minutes']} minutes, at commit {record['commit'][:10]}{later}"
    )


if __name__ == "__main__":
    sys.exit(main())
