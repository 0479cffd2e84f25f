"""The server of a drill's run, in a process of its own: it goes on from its last checkpoint whenever it is started again.

python -m benchmarks.drill.server SUPERLINK AUTHORITY SECRET-FILE FILE.toml OUT DEADLINE
"""

import sys
from pathlib import Path

from turnout.engines.flower.server_connection import Server, flower_run
from turnout.experiment.config import read
from turnout.experiment.results import SUMMARY
from turnout.federation.server import connect_clients, start_or_resume
from turnout.io.atomic import write
from turnout.io.serialization import encode
from turnout.runs.session import Session

END = "end.safetensors"
"""The snapshot of a session that played its last round, in the folder of its run."""


def main() -> None:
    """Play the run to its end, and keep the last snapshot."""
    address, *paths, deadline = sys.argv[1:]
    authority, secret, file, out = map(Path, paths)

    def watch(session: Session) -> None:
        if session.round == session.rounds:
            write(out / END, encode(session.snapshot(), None))

    if not (out / SUMMARY).exists():
        server = Server(address, authority, secret.read_text())
        with flower_run(server) as grid:
            mailbox, nodes = connect_clients(grid, read(file), None, float(deadline), keys=authority.parent)
            start_or_resume(mailbox, nodes, file, out, None, watch, "drill")


if __name__ == "__main__":
    main()
