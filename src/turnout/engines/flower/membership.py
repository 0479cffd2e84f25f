"""Changes of a federation's registry: clients that are added, get another key, or are revoked."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import tomlkit
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, ssh_key_fingerprint
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, public_key_to_bytes
from tomlkit.items import AoT

from turnout.core.errors import UserError
from turnout.engines.flower.key_request import read_request
from turnout.engines.flower.keys import AUTHORITY, CERTIFICATE, check_folder, read_certificate
from turnout.engines.flower.registry import FILE, Member, Registry, write_registry
from turnout.io.atomic import exclusive, write


def register(folder: Path, request: Path, client: str | None = None) -> int:
    """Add the site of a request to the registry, or give a client the request's key in the place of its own; return its number.

    Args:
        folder: Folder of `turnout certify`.
        request: The request.
        client: Number or name of the client that gets another key; None for a new client.
    """
    name, key = read_request(request)
    raw = public_key_to_bytes(key)
    with _changing(folder) as (tables, registry):
        owner = registry.owner(raw)
        if owner is not None:
            whose = "the revoked key" if registry.members[owner].revoked else "the key"
            raise UserError(f"{request} has {whose} of {registry.members[owner].name}: ask the site for a request with a new key")
        file = f"node-{sha256(raw).hexdigest()[:16]}.pub"
        write(folder / file, key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
        if client is None:
            if name in [member.name for member in registry.members]:
                raise UserError(f"{folder} has a client {name} already: replace its key with --client, or ask for another name")
            table = tomlkit.table()
            table.update({"name": name, "key": file})
            if tables:
                tables[-1].add(tomlkit.nl())
            tables.append(table)
            return len(tables) - 1
        number = numbered(registry, client, folder)
        tables[number].update({"key": file})
        tables[number].pop("revoked", None)
        return number


def revoke(folder: Path, client: str) -> str:
    """Mark a client as revoked in the registry, and return its name.

    Args:
        folder: Folder of `turnout certify`.
        client: Number or name of the client.
    """
    with _changing(folder) as (tables, registry):
        number = numbered(registry, client, folder)
        tables[number].update({"revoked": True})
        return registry.members[number].name


def members_of(folder: Path) -> tuple[Member, ...]:
    """Return all clients of the registry in a folder of `turnout certify`."""
    check_folder(folder)
    return Registry.read(folder).members


def fingerprint(member: Member) -> str:
    """Return the fingerprint of a client's key, as `ssh-keygen -l` shows it."""
    key = bytes_to_public_key(member.key or b"")
    return f"SHA256:{b64encode(ssh_key_fingerprint(key, SHA256())).decode().rstrip('=')}"


def ends(folder: Path) -> list[str]:
    """Return sentences on how long the certificates in a folder of `turnout certify` are valid."""
    dates = [read_certificate(folder / file).not_valid_after_utc for file in (CERTIFICATE, AUTHORITY)]
    return [f"the server's certificate ends on {dates[0]:%Y-%m-%d}, that of the authority on {dates[1]:%Y-%m-%d}"]


def numbered(registry: Registry, client: str, folder: Path) -> int:
    """Return the number of the client with this number or name; `UserError` if there is none, or more than one.

    Args:
        registry: The clients.
        client: Number or name.
        folder: Folder of the registry, for messages.
    """
    found = [i for i, member in enumerate(registry.members) if client in (member.name, str(i))]
    if len(found) != 1:
        how_many = f"{len(found)} clients" if found else "no client"
        raise UserError(f"{folder} has {how_many} {client!r}: turnout members {folder} shows their numbers and names")
    return found[0]


@contextmanager
def _changing(folder: Path) -> Iterator[tuple[AoT, Registry]]:
    """Yield the tables of the clients and the registry as it is, and write the tables, with all comments, at the end."""
    check_folder(folder)
    with exclusive(folder / FILE):
        registry = Registry.read(folder)
        if not (folder / FILE).exists():
            write_registry(folder, range(len(registry.members)))
        document = tomlkit.parse((folder / FILE).read_text())
        if "client" not in document:
            document["client"] = tomlkit.aot()
        tables = document["client"]
        if not isinstance(tables, AoT):
            raise UserError(f"{folder / FILE} has its clients in one line: write each as a table [[client]]")
        yield tables, registry
        write(folder / FILE, document.as_string())
