"""Certificates and keys of a federation: one authority, the server's certificate, a key for each node."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from secrets import token_urlsafe

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from turnout.core.errors import UserError
from turnout.engines.flower.registry import write_registry
from turnout.io.atomic import write

AUTHORITY, AUTHORITY_KEY, CERTIFICATE, KEY, SECRET = "ca.crt", "ca.key", "server.pem", "server.key", "secret"
STATUS_TOKEN = "status-token"
DAYS, AUTHORITY_DAYS = 825, 7300
"""Days for which the server's and the authority's certificates are valid."""


def write_all(folder: Path, hosts: list[str], nodes: Sequence[int], hubs: bool = False) -> None:
    """Write the certificates, also valid for localhost, a random secret, the keys of each node, and the registry.

    Args:
        folder: Folder of the files.
        hosts: Names and addresses of the SuperLink.
        nodes: The number of each.
        hubs: Whether they are hubs.
    """
    write_authority(folder)
    write_certificate(folder, _with_localhost(hosts))
    write(folder / SECRET, token_urlsafe(32), private=True)
    status_token(folder)
    for i in nodes:
        name = f"hub-{i}" if hubs else f"node-{i}"
        (folder / f"{name}.pub").write_bytes(write_node_key(folder / name))
    write_registry(folder, nodes, hubs)


def check_folder(folder: Path) -> None:
    """Raise `UserError` unless `folder` is one of `turnout certify`."""
    if not (folder / SECRET).exists():
        raise UserError(f"{folder} holds no keys of nodes: make them with turnout certify {folder} --host NAME --clients N")


def status_token(folder: Path) -> str:
    """Return the token for those who may read the status of the federation, which is made where there is none.

    Args:
        folder: Folder of the files.
    """
    path = folder / STATUS_TOKEN
    if not path.exists():
        write(path, token_urlsafe(32), private=True)
    return path.read_text().strip()


def write_authority(folder: Path) -> None:
    """Write the certificate and the private key of a new authority.

    Args:
        folder: Folder of the files.
    """
    authority, issuer = ec.generate_private_key(ec.SECP384R1()), _common_name("turnout federation")
    public = authority.public_key()
    ca = _certificate(issuer, issuer, public, datetime.now(UTC) + timedelta(days=AUTHORITY_DAYS), public)
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"), False
    )
    signing = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage)
    ca = ca.add_extension(signing, critical=True)
    (folder / AUTHORITY).write_bytes(ca.sign(authority, hashes.SHA384()).public_bytes(Encoding.PEM))
    _write_key(folder / AUTHORITY_KEY, authority)


def write_certificate(folder: Path, hosts: list[str]) -> None:
    """Write a new key of the server, and its certificate by the authority of the folder, which is valid as long as that at most.

    Args:
        folder: Folder of the files.
        hosts: Names and addresses of the SuperLink.
    """
    ca, server = read_certificate(folder / AUTHORITY), ec.generate_private_key(ec.SECP384R1())
    authority = load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
    if not isinstance(authority, ec.EllipticCurvePrivateKey) or authority.public_key() != ca.public_key():
        raise UserError(f"{folder / AUTHORITY_KEY} is not the key of {AUTHORITY}: put the right one there")
    end = min(datetime.now(UTC) + timedelta(days=DAYS), ca.not_valid_after_utc)
    certificate = _certificate(ca.subject, _common_name(hosts[0]), server.public_key(), end, ca.public_key())
    certificate = certificate.add_extension(x509.SubjectAlternativeName([_address(host) for host in hosts]), critical=False)
    certificate = certificate.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    _write_key(folder / KEY, server)
    write(folder / CERTIFICATE, certificate.sign(authority, hashes.SHA384()).public_bytes(Encoding.PEM))


def renew(folder: Path, hosts: list[str]) -> None:
    """Write a new key and certificate of the server, by the same authority, so that nodes need nothing new.

    Args:
        folder: Folder of `turnout certify`.
        hosts: Names and addresses of the SuperLink; none for those of the present certificate.
    """
    check_folder(folder)
    if not (folder / AUTHORITY_KEY).exists():
        raise UserError(f"{folder} has no {AUTHORITY_KEY}, which signs certificates: put it there, or make a new folder")
    names = read_certificate(folder / CERTIFICATE).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    write_certificate(folder, _with_localhost(hosts) if hosts else [str(name.value) for name in names])


def read_certificate(path: Path) -> x509.Certificate:
    """Return the certificate in the file `path`; `UserError` if it holds none."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as a certificate: {error}") from None


def write_node_key(path: Path) -> bytes:
    """Write a new private key of a node in OpenSSH's format, and return the public key.

    The SuperLink checks a signature with each request: on this curve ten times as fast as on the next larger one.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    write(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), private=True)
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)


def read_node_key(path: Path) -> tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]:
    """Return the private and the public key in the file `path` of `write_node_key`; `UserError` if it holds none."""
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as the key of a node: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError(f"{path} holds a key of another kind than nodes have: make one by ssh-keygen -t ecdsa -b 256")
    return key, key.public_key()


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key of the authority or the server."""
    write(path, key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()), private=True)


def _with_localhost(hosts: list[str]) -> list[str]:
    return list(dict.fromkeys([*hosts, "localhost", "127.0.0.1"]))


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _address(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(issuer: x509.Name, subject: x509.Name, key, end: datetime, issuing_key) -> x509.CertificateBuilder:
    """Return a certificate with the identifiers of both keys, without which Python 3.13 and later refuse it (RFC 5280, 4.2.1)."""
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuing_key), critical=False)
    )
