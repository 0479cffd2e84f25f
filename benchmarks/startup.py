"""How long it takes until anything happens."""

import subprocess
import sys
from statistics import median

from benchmarks.timing import Line, alternate, seconds

IMPORT = (sys.executable, "-X", "importtime", "-c", "import turnout")
HELP = (sys.executable, "-c", "from turnout.cli import main; main()", "--help")


def measure() -> list[Line]:
    """Return the seconds of `import turnout`, those of jax in it, and those of the process `turnout --help`."""
    parts: dict[str, list[float]] = {"turnout": [], "jax": []}

    def imports() -> float:
        found = import_times(subprocess.run(IMPORT, check=True, capture_output=True, text=True).stderr)
        for name, times in parts.items():
            times.append(found[name])
        return found["turnout"]

    def show_help() -> float:
        return seconds(lambda: subprocess.run(HELP, check=True, capture_output=True))

    taken = alternate({"import turnout": imports, "turnout --help": show_help})
    jax = median(parts["jax"][1:])
    return [
        Line("startup", "import turnout", median(taken["import turnout"]), unit="s", note=f"of this jax {jax:.2f} s",
             timings={"import turnout": taken["import turnout"], "import jax": parts["jax"][1:]}),
        Line("startup", "turnout --help", median(taken["turnout --help"]), unit="s", note="the whole process",
             timings={"turnout --help": taken["turnout --help"]}),
    ]  # fmt: skip


def import_times(log: str) -> dict[str, float]:
    """Return the seconds of each import, what it imports included, from what `-X importtime` wrote."""
    rows = (line.removeprefix("import time:").split("|") for line in log.splitlines() if line.count("|") == 2)
    return {name.strip(): int(total) / 1e6 for _, total, name in rows if total.strip().isdigit()}
