"""Play the drill, and print what was killed and what came of it: `python -m benchmarks.drill`."""

import argparse
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.drill.cases import ALGORITHMS, IN_HUBS, POLICIES, Case
from benchmarks.drill.kills import HUB_KINDS, KINDS, Played, drill

SAME = 1e-10
"""How far apart what has to be equal may be."""

SHARE = 17
"""The most kills in a run."""


def main() -> int:
    """Play the drill; the exit code is 1 where a run did not end, or something differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drill", description="Kill processes of federations at random.")
    parser.add_argument("--kills", type=int, default=100, help="processes to kill (100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of what is killed when (0)")
    parser.add_argument(
        "--hubs", type=int, default=0, help="hubs between the server and the four clients, which are killed too (0)"
    )
    parser.add_argument("--folder", type=Path, help="folder for keys, states, logs and results (a temporary one)")
    options = parser.parse_args()
    generator = np.random.default_rng(options.seed)
    kills = [str(kind) for kind in generator.choice(HUB_KINDS if options.hubs else KINDS, options.kills)]
    pairs = [(algorithm, missing) for missing in POLICIES for algorithm in ALGORITHMS]
    pairs = [(algorithm, "repeat") for algorithm in IN_HUBS if options.hubs] + pairs
    cases = [Case(*pair, clients=4, rounds=60, hubs=options.hubs) for pair in pairs]
    runs = []
    with TemporaryDirectory(prefix="turnout-") as temporary:
        for played in drill(options.folder or Path(temporary), cases, kills, generator, SHARE):
            print(line(played), flush=True)
            runs.append(played)
    total = sum((played.kills for played in runs), Counter())
    ended, worst = sum(played.ended for played in runs), max(played.worst for played in runs)
    print(f"{total.total()} kills ({told(total)}) in {len(runs)} runs, of which {ended} ended; largest difference {worst:.1e}")
    return int(ended < len(runs) or worst > SAME or total.total() < options.kills)


def line(played: Played) -> str:
    """Tell about one run."""
    found = ", ".join(f"{what} {size:.1e}" for what, size in played.differences.items()) or "did not end"
    return (
        f"{played.case}: {played.seconds:.0f} s, killed {told(played.kills)}; ended by themselves: {told(played.fell)}; {found}"
    )


def told(counts: Counter) -> str:
    """Write counts by kind."""
    return ", ".join(f"{many} {kind}" for kind, many in sorted(counts.items())) or "none"


if __name__ == "__main__":
    sys.exit(main())
