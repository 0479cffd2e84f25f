"""A server in a process of its own, which plays FILE with cohorts of SIZE and says what that took.

python peak.py FILE ADDRESS FOLDER SIZE
"""

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import turnout as t
from turnout.engines.flower.engine import Flower
from turnout.engines.flower.greeting import handshake
from turnout.engines.flower.mailbox import Mailbox
from turnout.engines.flower.server_connection import Server, flower_run
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read
from turnout.federation.handshake import handshake_of


def main() -> None:
    file, address, folder, size = sys.argv[1:]
    experiment = read(Path(file))
    built = build(experiment, None)
    expected = handshake_of(experiment, built)
    experiment = replace(experiment, algorithm=replace(experiment.algorithm, sampler=t.Nice(int(size))))
    server = Server(address, Path(folder) / "ca.crt", (Path(folder) / "secret").read_text())
    with flower_run(server) as grid:
        mailbox = Mailbox(grid, 120.0)
        nodes = handshake(mailbox, expected, built.problem.clients, timeout=240.0)
        # A node that was killed before is greeted for as long as the SuperLink takes it to be there.
        mailbox.counts.clear()
        totals = session_of(experiment, built, engine=partial(Flower, mailbox, nodes, False)).run().trace.ledger.totals()
        assert not any(mailbox.counts.values()), mailbox.counts
        status = Path("/proc/self/status").read_text()
        peak = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
        print(json.dumps({"run": grid.run.run_id, "peak": peak, **{name: int(totals[name]) for name in totals}}))


if __name__ == "__main__":
    main()
