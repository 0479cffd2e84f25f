"""The registry of a federation: which client, name and number of rows belong to which public key."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from logging import ERROR
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.common.logger import log
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from turnout.core.errors import UserError

FILE = "clients.toml"

MOST_ROWS = 10_000_000
"""Rows that a node may say it has, where its registry does not say more. The server needs about 100 bytes for each."""

REVOKED = "the key of this node was revoked"
"""Why the node of a revoked client is refused."""

HEAD = f"""# The clients of this federation, by number. A client counts for as many rows as `rows` says, if that is given, and
# otherwise for as many as its node says, up to `most_rows`. A client that is `revoked` is refused.
most_rows = {MOST_ROWS}
"""


@dataclass(frozen=True)
class Member:
    """One client of a federation.

    Args:
        name: Name of the client, for messages.
        key: Public key of its node, in PEM format; None for any node.
        rows: Number of its rows, whatever its node says; None takes the node's word.
        revoked: Whether its node is refused.
    """

    name: str
    key: bytes | None = None
    rows: int | None = None
    revoked: bool = False


@dataclass(frozen=True)
class Registry:
    """The clients of a federation by number.

    Args:
        members: The clients.
        most_rows: Most rows that a node may say it has.
    """

    members: tuple[Member, ...]
    most_rows: int = MOST_ROWS

    @classmethod
    def open(cls, clients: int) -> "Registry":
        """Return the registry of `clients` clients whose nodes are who they say they are."""
        return cls(tuple(Member(f"client {i}") for i in range(clients)))

    @classmethod
    def read(cls, folder: Path, clients: int | None = None) -> "Registry":
        """Return the registry of the first `clients` clients with keys in a folder of `turnout certify`.

        Args:
            folder: The folder.
            clients: Number of clients; None for all.
        """
        path = folder / FILE
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8-sig")) if path.exists() else {}
            tables = content.get("client", [{"key": f"node-{i}.pub"} for i, _ in enumerate(folder.glob("node-*.pub"))])
            most, members = content.get("most_rows", MOST_ROWS), [_member(folder, i, table) for i, table in enumerate(tables)]
            if {*content} - {"most_rows", "client"} or not _counts(most):
                raise ValueError("beside [[client]] it has most_rows, a number above 0")
            if len({member.key for member in members}) < len(members):
                raise ValueError("two clients have the same key")
        except (OSError, ValueError, LookupError, TypeError, AttributeError, UnsupportedAlgorithm) as error:
            raise UserError(f"{path} cannot be read as the list of clients ({error}): correct it") from None
        if clients is not None and len(members) < clients:
            raise UserError(f"{folder} has {len(members)} clients, but the configuration has {clients}: give it the others' keys")
        return cls(tuple(members[:clients]), most)

    def owner(self, key: bytes) -> int | None:
        """Return the client to whom a public key belongs, or None."""
        return next((i for i, member in enumerate(self.members) if member.key == key), None)

    @property
    def checks_keys(self) -> bool:
        """Whether nodes are known by their keys."""
        return any(member.key is not None for member in self.members)


def _member(folder: Path, number: int, table: dict[str, Any]) -> Member:
    """Return the client that a table describes."""
    name = table.get("name", f"client {number}")
    known, revoked = {"name", "key", "rows", "revoked"}, table.get("revoked", False)
    if {*table} - known or not is_name(name) or not _counts(table.get("rows", 1)) or type(revoked) is not bool:
        raise ValueError(f"[[client]] {number} has a key, and maybe a name, rows, a number above 0, and revoked, true or false")
    key = load_ssh_public_key((folder / table["key"]).read_bytes())
    return Member(name, public_key_to_bytes(key), table.get("rows"), revoked)


def is_name(name: Any) -> bool:
    """Return whether a client can have this name."""
    return isinstance(name, str) and name.isprintable() and bool(name.strip())


def _counts(number: Any) -> bool:
    return type(number) is int and number > 0


class RegistryFile:
    """The registry in a folder, which is read again when its file has changed.

    If it cannot be read any more, this is told in the log, and the clients are those that it had.

    Args:
        folder: Folder of `turnout certify`.
        clients: Number of clients; None for all.
    """

    def __init__(self, folder: Path, clients: int | None = None):
        self.folder, self.clients = folder, clients
        self._read = self._stamp()
        self.registry = Registry.read(folder, clients)

    @property
    def changed(self) -> bool:
        """Whether the file has changed since it was read."""
        return self._stamp() != self._read

    def read(self) -> Registry:
        """Return the registry as it is now."""
        if self.changed:
            self._read = self._stamp()
            try:
                if not self._read:
                    raise UserError(f"{self.folder / FILE} is gone: put it back")
                self.registry = Registry.read(self.folder, self.clients)
            except UserError as error:
                log(ERROR, "%s; until then the clients are those before the change", error)
        return self.registry

    def _stamp(self) -> tuple[int, ...]:
        """Return what changes whenever the file does."""
        try:
            state = (self.folder / FILE).stat()
        except OSError:
            return ()
        return state.st_mtime_ns, state.st_size, state.st_ino


def write_registry(folder: Path, nodes: Sequence[int], hubs: bool = False) -> None:
    """Write the registry of nodes whose public keys are in `folder`.

    Args:
        folder: The folder.
        nodes: The number of each.
        hubs: Whether they are hubs.
    """
    name, key = ("hub", "hub") if hubs else ("client", "node")
    tables = [f'\n[[client]]\nname = "{name} {i}"\nkey = "{key}-{i}.pub"\n' for i in nodes]
    (folder / FILE).write_text("".join([HEAD, *tables]))
