"""A site's request to be registered: a certificate signing request, whose signature proves that the site has the private key."""

from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from turnout.core.errors import UserError
from turnout.engines.flower.keys import read_node_key, write_node_key
from turnout.engines.flower.registry import is_name
from turnout.io.atomic import write

LONGEST_NAME = 64
"""Most letters of a name in a request."""


def write_request(path: Path) -> Path:
    """Write a new private key beside `path`, and to `path` the request to register it by the file's name; return the key's path.

    Args:
        path: Path of the request.
    """
    key = path.with_suffix(".key")
    for file in (path, key):
        if file.exists() or key == path:
            raise UserError(f"{file} exists, and keys are not overwritten: choose another name, such as {path.stem}-2.request")
    if not is_name(path.stem) or len(path.stem) > LONGEST_NAME:
        raise UserError(f"{path.stem!r} cannot be the name of a site: give the request a name of up to {LONGEST_NAME} letters")
    write_node_key(key)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, path.stem)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(read_node_key(key)[0], hashes.SHA256())
    write(path, request.public_bytes(Encoding.PEM))
    return key


def read_request(path: Path) -> tuple[str, ec.EllipticCurvePublicKey]:
    """Return the name and the public key in a request; `UserError` if it holds none, or its signature is wrong.

    Args:
        path: Path of the request.
    """
    try:
        request = x509.load_pem_x509_csr(path.read_bytes())
        names, key, valid = [part.value for part in request.subject], request.public_key(), request.is_signature_valid
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        reason = getattr(error, "strerror", None) or "it is none of turnout node --request, or was changed on the way"
        raise UserError(f"{path} cannot be read as the request of a site ({reason}): ask the site to send it again") from None
    if not valid:
        raise UserError(f"{path} is not signed by the key that it names: ask the site to make it with turnout node --request")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise UserError(f"{path} has a key of another kind than nodes have: ask the site to make it with turnout node --request")
    if len(names) != 1 or not is_name(names[0]) or len(names[0]) > LONGEST_NAME:
        raise UserError(f"{path} has no name that a client can have: ask the site to make it with turnout node --request")
    return str(names[0]), key
