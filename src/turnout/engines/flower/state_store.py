"""Private client states, and the last reply, on a node's disk."""

from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

import jax
from jaxtyping import PyTree

from turnout.engines.node import LastReply, States
from turnout.engines.request import Version
from turnout.io.atomic import make_folder, write
from turnout.io.serialization import decode, encode


class DiskStates(States):
    """The states of one client by version, one file each in `folder`; all have the structure of `like`.

    The name of a file is a digest of the version. Only their owner can read the files. They are written atomically: a node
    killed at any moment finds the states that it had, or one more.

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

    def keep(self, versions: Collection[Version]) -> None:
        """Remove the files of all states but those of the `versions`."""
        for path in {*self.folder.glob("*.state")} - {self._path(version) for version in versions}:
            path.unlink()

    def _path(self, version: Version) -> Path:
        return self.folder / f"{sha256(f'{version[0]:d}_{version[1]:d}'.encode()).hexdigest()}.state"


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
