"""A local federation with hubs: the server's SuperLink, the hubs, each with its own, and the nodes."""

from functools import partial
from itertools import pairwise
from pathlib import Path

from turnout.engines.flower import keys
from turnout.engines.flower.server_connection import Server
from turnout.federation.local import Federation, superlink_of
from turnout.federation.process_group import cores
from turnout.io.ports import free_port


class HubFederation(Federation):
    """The processes of a federation with hubs on the loopback interface.

    The files of hub k and of its clients' nodes are in the folder `of-hub-k` of the federation's.

    Args:
        folder: Folder of certificates, keys, states and logs.
        file: File of the configuration.
        of: The hub of each client.
        data: Folder with data files; None for the default folders.
    """

    def __init__(self, folder: Path, file: Path, of: list[int], data: Path | None):
        hubs = 1 + max(of)
        self.own = [[client for client, hub in enumerate(of) if hub == k] for k in range(hubs)]
        super().__init__(folder, file, hubs, data)
        self.of_each = max(1, cores() // hubs)
        self.processes = sum(min(self.of_each, len(own)) for own in self.own)
        self.links = [self._link(hub) for hub in range(hubs)]

    def write_keys(self) -> None:
        keys.write_all(self.folder, ["localhost"], range(self.clients), hubs=True)
        for hub, own in enumerate(self.own):
            self.place(hub).mkdir(parents=True, exist_ok=True)
            keys.write_all(self.place(hub), ["localhost"], own)

    def start(self) -> None:
        self.start_registered_superlink()
        self.start_members()

    def start_members(self) -> list[str]:
        """Start the hubs and the nodes of their clients, and return the names of the processes."""
        names = []
        for hub in range(self.clients):
            for file in self.place(hub).glob("superlink.db*"):
                file.unlink()
            names.append(self.start_hub(hub))
        for hub, link in enumerate(self.links):
            # A node that finds nobody waits longer each time.
            self.await_superlink(link, f"hub-{hub}")
            names += self.start_nodes_of(hub)
        return names

    def states(self, client: int) -> Path:
        return self.place(next(hub for hub, own in enumerate(self.own) if client in own)) / f"states-{client}"

    def start_hub(self, hub: int) -> str:
        """Start a hub with its SuperLink, and return the name of the process."""
        data = () if self.data is None else ("--data", self.data)
        own = (
            "--key",
            self.folder / f"hub-{hub}",
            "--keys",
            self.place(hub),
            "--port",
            self.links[hub].address.rpartition(":")[2],
        )
        return self.run(f"hub-{hub}", "turnout", "hub", self.file, "--hub", hub, *superlink_of(self.server), *own, *data)

    def start_nodes_of(self, hub: int) -> list[str]:
        """Start the nodes of a hub, and return the names of the processes."""
        own, folder = self.own[hub], self.place(hub)
        count = min(self.of_each, len(own))
        parts = [own[first:end] for first, end in pairwise(k * len(own) // count for k in range(count + 1))]
        start = partial(self._start_node, server=self.links[hub])
        private = ("--key", folder, "--states", folder)
        return [start(f"nodes-of-hub-{hub}-{k}", "--clients", _listed(part), *private) for k, part in enumerate(parts)]

    def place(self, hub: int) -> Path:
        """Return the folder of a hub's keys, and of its clients' keys and states."""
        return self.folder / f"of-hub-{hub}"

    def _link(self, hub: int) -> Server:
        """Return the SuperLink of a hub."""
        folder = self.place(hub)
        return Server(f"127.0.0.1:{free_port()}", folder / keys.AUTHORITY, (folder / keys.SECRET).read_text())


def _listed(numbers: list[int]) -> str:
    """Return numbers as `--clients` takes them."""
    first, last = numbers[0], numbers[-1]
    return f"{first}-{last}" if len(numbers) == last - first + 1 else ",".join(map(str, numbers))
