"""Certificates and keys of a federation: one authority, the server's certificate, a key for each node."""

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
    load_ssh_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from turnout.core.errors import UserError
from turnout.engines.flower.registry import write_registry

AUTHORITY, CERTIFICATE, KEY, SECRET = "ca.crt", "server.pem", "server.key", "secret"
DAYS = 825
"""Days for which certificates are valid."""


def write_all(folder: Path, hosts: list[str], nodes: int) -> None:
    """Write the certificates, also valid for localhost, a random secret, the keys of each node, and the registry.

    Args:
        folder: Folder of the files.
        hosts: Names and addresses of the SuperLink.
        nodes: Number of nodes.
    """
    write_certificates(folder, list(dict.fromkeys([*hosts, "localhost", "127.0.0.1"])))
    write_private(folder / SECRET, token_urlsafe(32).encode())
    for i in range(nodes):
        (folder / f"node-{i}.pub").write_bytes(write_node_key(folder / f"node-{i}"))
    write_registry(folder, nodes)


def write_certificates(folder: Path, hosts: list[str]) -> None:
    """Write the certificates of a new authority and of the server, and the server's key, for the names and addresses `hosts`.

    The authority's private key is not stored.

    Args:
        folder: Folder of the files.
        hosts: Names and addresses of the SuperLink.
    """
    authority, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    issuer = _common_name("turnout federation")
    ca = _certificate(issuer, issuer, authority.public_key())
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"), False
    )
    signing = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage)
    ca = ca.add_extension(signing, critical=True)
    certificate = _certificate(issuer, _common_name(hosts[0]), server.public_key())
    certificate = certificate.add_extension(x509.SubjectAlternativeName([_address(host) for host in hosts]), critical=False)
    certificate = certificate.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    (folder / AUTHORITY).write_bytes(ca.sign(authority, hashes.SHA384()).public_bytes(Encoding.PEM))
    (folder / CERTIFICATE).write_bytes(certificate.sign(authority, hashes.SHA384()).public_bytes(Encoding.PEM))
    write_private(folder / KEY, server.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))


def write_node_key(path: Path) -> bytes:
    """Write a new private key of a node in OpenSSH's format, and return the public key.

    The SuperLink checks a signature with each request: on this curve ten times as fast as on the next larger one.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
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


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read.

    Args:
        path: Path of the file.
        content: Its content.
    """
    path.touch(mode=0o600)
    path.write_bytes(content)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _address(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(issuer: x509.Name, subject: x509.Name, key) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=DAYS))
    )
