"""A local federation with hubs: the server's SuperLink, the hubs, each with its own, and the nodes."""

from functools import partial
from itertools import groupby, pairwise
from pathlib import Path

from turnout.engines.flower import keys
from turnout.engines.flower.server_connection import Server
from turnout.federation.local import Federation, superlink_of
from turnout.federation.process_group import cores
from turnout.hubs.layout import Place, written
from turnout.io.ports import free_port


class HubFederation(Federation):
    """The processes of a federation with hubs on the loopback interface.

    The files of hub k and of its clients' nodes are in the folder `of-hub-k` of the federation's, those of its own hub j in
    `of-hub-k/of-hub-j`.

    Args:
        folder: Folder of certificates, keys, states and logs.
        file: File of the configuration.
        of: The hubs of each client, by their places.
        data: Folder with data files; None for the default folders.
    """

    def __init__(self, folder: Path, file: Path, of: list[Place], data: Path | None):
        every = {lowest[:k] for lowest in of for k in range(1, 1 + len(lowest))}
        self.of, self.hubs = of, sorted(every, key=lambda hub: (len(hub), hub))
        self.lowest = [hub for hub in self.hubs if len(hub) == len(of[0])]
        super().__init__(folder, file, len(self.below(())), data)
        self.of_each = max(1, cores() // len(self.lowest))
        self.processes = sum(min(self.of_each, len(self.below(hub))) for hub in self.lowest)
        self.links = {(): self.server} | {hub: self._link(hub) for hub in self.hubs}

    def below(self, hub: Place) -> list[int]:
        """Return the numbers of what is connected to a hub, or to the server, whose place is (): of hubs, or of clients."""
        if len(hub) == len(self.of[0]):
            return [client for client, own in enumerate(self.of) if own == hub]
        return [further[-1] for further in self.hubs if further[:-1] == hub]

    def write_keys(self) -> None:
        for hub in [(), *self.hubs]:
            self.place(hub).mkdir(parents=True, exist_ok=True)
            keys.write_all(self.place(hub), ["localhost"], self.below(hub), hubs=len(hub) < len(self.of[0]))

    def start(self) -> None:
        self.start_registered_superlink()
        self.start_members()

    def start_members(self) -> list[str]:
        """Start the hubs and the nodes of their clients, and return the names of the processes."""
        names = []
        for _, level in groupby(self.hubs, len):
            hubs = [*level]
            names += [self.start_hub(hub) for hub in hubs]
            for hub in hubs:
                # A node that finds nobody waits longer each time.
                self.await_superlink(self.links[hub], f"hub-{written(hub)}")
        return names + [name for hub in self.lowest for name in self.start_nodes_of(hub)]

    def states(self, client: int) -> Path:
        return self.place(self.of[client]) / f"states-{client}"

    def start_hub(self, hub: Place) -> str:
        """Start a hub with a new SuperLink, and return the name of the process."""
        for file in self.place(hub).glob("superlink.db*"):
            file.unlink()
        name, above, port = written(hub), hub[:-1], self.links[hub].address.rpartition(":")[2]
        own = "--key", self.place(above) / f"hub-{hub[-1]}", "--keys", self.place(hub), "--port", port
        data = () if self.data is None else ("--data", self.data)
        return self.run(f"hub-{name}", "turnout", "hub", self.file, "--hub", name, *superlink_of(self.links[above]), *own, *data)

    def start_nodes_of(self, hub: Place) -> list[str]:
        """Start the nodes of a lowest hub, and return the names of the processes."""
        own, folder = self.below(hub), self.place(hub)
        count = min(self.of_each, len(own))
        parts = [own[first:end] for first, end in pairwise(k * len(own) // count for k in range(count + 1))]
        start = partial(self._start_node, server=self.links[hub])
        private = ("--key", folder, "--states", folder)
        return [start(f"nodes-of-hub-{written(hub)}-{k}", "--clients", _listed(part), *private) for k, part in enumerate(parts)]

    def place(self, hub: Place) -> Path:
        """Return the folder of a hub's keys, and of the keys and states of what is connected to it."""
        return self.folder.joinpath(*(f"of-hub-{number}" for number in hub))

    def _link(self, hub: Place) -> Server:
        """Return the SuperLink of a hub."""
        folder = self.place(hub)
        return Server(f"127.0.0.1:{free_port()}", folder / keys.AUTHORITY, (folder / keys.SECRET).read_text())


def _listed(numbers: list[int]) -> str:
    """Return numbers as `--clients` takes them."""
    first, last = numbers[0], numbers[-1]
    return f"{first}-{last}" if len(numbers) == last - first + 1 else ",".join(map(str, numbers))
