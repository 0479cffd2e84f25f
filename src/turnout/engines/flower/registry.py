"""The registry of a federation: which client, name and number of rows belong to which public key."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from turnout.core.errors import UserError

FILE = "clients.toml"

MOST_ROWS = 10_000_000
"""Rows that a node may say it has, where its registry does not say more. The server needs about 100 bytes for each."""

HEAD = f"""# The clients of this federation, by number. A client counts for as many rows as `rows` says, if that is given, and
# otherwise for as many as its node says, up to `most_rows`.
most_rows = {MOST_ROWS}
"""


@dataclass(frozen=True)
class Member:
    """One client of a federation.

    Args:
        name: Name of the client, for messages.
        key: Public key of its node, in PEM format; None for any node.
        rows: Number of its rows, whatever its node says; None takes the node's word.
    """

    name: str
    key: bytes | None = None
    rows: int | None = None


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
    def read(cls, folder: Path, clients: int) -> "Registry":
        """Return the registry of the first `clients` clients with keys in a folder of `turnout certify`.

        Args:
            folder: The folder.
            clients: Number of clients.
        """
        path = folder / FILE
        try:
            content = tomllib.loads(path.read_text()) if path.exists() else {}
            tables = content.get("client", [{"key": f"node-{i}.pub"} for i in range(clients)])
            most, members = content.get("most_rows", MOST_ROWS), [_member(folder, i, table) for i, table in enumerate(tables)]
            if {*content} - {"most_rows", "client"} or not _counts(most):
                raise ValueError("beside [[client]] it has most_rows, a number above 0")
        except (OSError, ValueError, LookupError, TypeError, AttributeError, UnsupportedAlgorithm) as error:
            raise UserError(f"{path} cannot be read as the list of clients ({error}): correct it") from None
        if len(members) < clients:
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
    if {*table} - {"name", "key", "rows"} or not _is_name(name) or not _counts(table.get("rows", 1)):
        raise ValueError(f"[[client]] {number} has a key, and maybe a name and rows, a number above 0")
    key = load_ssh_public_key((folder / table["key"]).read_bytes())
    return Member(name, public_key_to_bytes(key), table.get("rows"))


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and name.isprintable() and bool(name.strip())


def _counts(number: Any) -> bool:
    return type(number) is int and number > 0


def write_registry(folder: Path, nodes: int) -> None:
    """Write the registry of nodes whose public keys are in `folder`.

    Args:
        folder: The folder.
        nodes: Number of nodes.
    """
    tables = [f'\n[[client]]\nname = "client {i}"\nkey = "node-{i}.pub"\n' for i in range(nodes)]
    (folder / FILE).write_text("".join([HEAD, *tables]))
