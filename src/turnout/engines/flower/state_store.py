"""Private client states, and the last reply, on a node's disk."""

from collections.abc import Iterator, MutableMapping
from pathlib import Path

import jax
from jaxtyping import PyTree

from turnout.engines.node import LastReply
from turnout.engines.request import Version
from turnout.io.atomic import make_folder, write
from turnout.io.serialization import decode, encode


class DiskStates(MutableMapping):
    """The states of one client by version, one file each in `folder`; all have the structure of `like`.

    Only their owner can read the files. They are written atomically: a node killed at any moment finds the states that it had,
    or one more.

    Args:
        folder: Folder of the files.
        like: A state, whose structure all states have.
    """

    def __init__(self, folder: Path, like: PyTree):
        self.folder, self.structure = folder, jax.tree.structure(like)
        make_folder(folder).chmod(0o700)

    def __getitem__(self, version: Version) -> PyTree:
        try:
            leaves, _ = decode(self._path(version).read_bytes(), None)
        except FileNotFoundError:
            raise KeyError(version) from None
        return jax.tree.unflatten(self.structure, leaves)

    def __setitem__(self, version: Version, state: PyTree) -> None:
        write(self._path(version), encode(jax.tree.leaves(state), None), private=True)

    def __delitem__(self, version: Version) -> None:
        self._path(version).unlink()

    def __iter__(self) -> Iterator[Version]:
        for path in self.folder.glob("*.state"):
            round, _, exchange = path.stem.partition("_")
            yield int(round), int(exchange)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _path(self, version: Version) -> Path:
        # Two whole numbers: nothing else that a message says may become part of a path.
        return self.folder / f"{version[0]:d}_{version[1]:d}.state"


class DiskReply(LastReply):
    """The last reply in a `file`, which a node that is restarted sends again.

    Args:
        file: The file: the digest of the request, 32 bytes, and the reply.
    """

    def __init__(self, file: Path):
        super().__init__()
        self.file = file
        if file.exists():
            content = file.read_bytes()
            super().put(content[:32], content[32:])

    def put(self, request: bytes, reply: bytes) -> None:
        write(self.file, request + reply, private=True)
        super().put(request, reply)
