"""A federation of nodes that take part in whatever is played: see `turncoat`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from turnout.federation.local import Federation


@contextmanager
def turncoats(folder: Path, clients: int) -> Iterator[Federation]:
    """Start a SuperLink and a node for each client, and yield their federation; `folder`/current names what is played."""
    federation = Federation(folder, folder / "none.toml", clients, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
        try:
            federation.start_registered_superlink()
            for i in range(clients):
                server = federation.server
                federation.run(f"node-{i}", "turncoat", folder, i, server.address, server.authority, federation.key(i))
            yield federation
        finally:
            federation.stop()
