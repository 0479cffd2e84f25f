"""Clients that are added, get another key or are revoked: real keys and files."""

import json
import ssl
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.superlink.federation import NoOpFederationManager

from tests.helpers.commands import turnout
from turnout.cli import tables
from turnout.core.errors import UserError
from turnout.engines.flower import keys
from turnout.engines.flower.key_request import read_request, write_request
from turnout.engines.flower.registry import FILE, REVOKED, Registry, RegistryFile
from turnout.engines.flower.superlink import admit


@pytest.fixture
def folder(tmp_path):
    """A folder of certify with three clients, the second of which has been edited."""
    made = tmp_path / "keys"
    made.mkdir()
    keys.write_all(made, ["lab.example.org"], range(3))
    text = (made / FILE).read_text().replace('name = "client 1"', 'name = "St. Mary\'s"  # since May\nrows = 7')
    (made / FILE).write_text(text)
    return made


@pytest.fixture
def request_file(tmp_path):
    write_request(tmp_path / "north.csr")
    return tmp_path / "north.csr"


def public(key: Path) -> bytes:
    return public_key_to_bytes(keys.read_node_key(key)[1])


def test_the_key_of_a_site_stays_there(request_file):
    key = request_file.with_suffix(".key")
    assert key.stat().st_mode & 0o777 == 0o600 and b"PRIVATE" not in request_file.read_bytes()
    name, read = read_request(request_file)
    assert name == "north" and public_key_to_bytes(read) == public(key)


def test_a_request_overwrites_no_key(request_file):
    before = request_file.with_suffix(".key").read_bytes()
    request_file.unlink()
    code, _, errors = turnout("node", "--request", request_file)
    assert code == 2 and "keys are not overwritten" in errors and request_file.with_suffix(".key").read_bytes() == before
    code, _, errors = turnout("node", "--request", request_file.with_name("other.key"))
    assert code == 2 and "keys are not overwritten" in errors


def test_a_registered_site_is_the_next_client(folder, request_file):
    code, out, errors = turnout("register", folder, request_file)
    assert (code, errors) == (0, "") and out.startswith("registered as client 3;")
    member = Registry.read(folder).members[3]
    assert (member.name, member.key, member.revoked) == ("north", public(request_file.with_suffix(".key")), False)
    assert "# since May" in (folder / FILE).read_text() and Registry.read(folder).members[1].rows == 7
    code, _, errors = turnout("register", folder, request_file)
    assert code == 2 and "has the key of north: ask the site for a request with a new key" in errors


def test_a_federation_can_begin_without_keys_of_nodes(tmp_path, request_file):
    assert turnout("certify", tmp_path / "made", "--host", "localhost", "--clients", 0)[0] == 0
    assert Registry.read(tmp_path / "made").members == ()
    assert turnout("register", tmp_path / "made", request_file)[0] == 0
    assert [member.name for member in Registry.read(tmp_path / "made").members] == ["north"]


@pytest.mark.parametrize("client", ["1", "St. Mary's"])
def test_a_revoked_client_is_admitted_with_a_new_key_only(folder, request_file, client):
    code, out, _ = turnout("revoke", folder, client)
    assert code == 0 and out.startswith("St. Mary's is revoked;")
    assert [member.revoked for member in Registry.read(folder).members] == [False, True, False]
    assert turnout("revoke", folder, client)[0] == 0
    assert turnout("register", folder, request_file, "--client", client)[0] == 0
    new = Registry.read(folder).members
    assert len(new) == 3 and not new[1].revoked and new[1].rows == 7 and new[1].key == public(request_file.with_suffix(".key"))
    assert "# since May" in (folder / FILE).read_text()
    assert turnout("revoke", folder, client)[0] == 0
    code, _, errors = turnout("register", folder, request_file, "--client", client)
    assert code == 2 and "has the revoked key of St. Mary's" in errors


def test_mistakes_are_sentences(folder, request_file, tmp_path):
    for words, sentence in (
        (("revoke", folder, "7"), "has no client '7': turnout members"),
        (("register", folder, request_file, "--client", "x"), "has no client 'x'"),
        (("register", folder, folder / "ca.crt"), "cannot be read as the request of a site"),
        (("register", folder, tmp_path / "none"), "No such file"),
        (("members", tmp_path), "holds no keys of nodes"),
        (("revoke", tmp_path, "0"), "holds no keys of nodes"),
        (("certify", tmp_path, "--renew"), "holds no keys of nodes"),
        (("certify", folder, "--renew", "--clients", "4"), "--renew makes no keys of nodes"),
        (("certify", tmp_path / "new"), "--host NAME --clients N"),
    ):
        before = {path: path.read_bytes() for path in folder.iterdir()}
        code, out, errors = turnout(*words)
        assert code == 2 and out == "" and sentence in errors and errors.count("\n") == 1
        assert before.items() <= {path: path.read_bytes() for path in folder.iterdir()}.items()
    (folder / FILE).write_text("client = 3")
    code, _, errors = turnout("members", folder)
    assert code == 2 and f"{folder / FILE} cannot be read as the list of clients" in errors


def test_members_are_shown_in_80_columns(folder, monkeypatch):
    turnout("revoke", folder, "2")
    monkeypatch.setattr(tables, "console", Console(width=80))
    code, out, _ = turnout("members", folder)
    lines = [line.split() for line in out.splitlines()]
    assert code == 0 and "St. Mary's" in out and max(map(len, out.splitlines())) <= 80
    assert [line[-1] for line in lines if line[0] in "012"] == ["registered", "registered", "revoked"]
    told = json.loads(turnout("members", folder, "--json")[1])
    assert [(one["client"], one["status"]) for one in told] == [(0, "registered"), (1, "registered"), (2, "revoked")]
    end = keys.read_certificate(folder / keys.CERTIFICATE).not_valid_after_utc
    assert f"the server's certificate ends on {end:%Y-%m-%d}" in out


def test_a_renewed_certificate_is_of_the_same_authority_and_for_the_same_machines(folder):
    authority, before = (keys.read_certificate(folder / name) for name in (keys.AUTHORITY, keys.CERTIFICATE))
    kept = [(folder / name).read_bytes() for name in (keys.AUTHORITY, keys.SECRET, FILE, "node-0")]
    assert turnout("certify", folder, "--renew")[0] == 0
    after = keys.read_certificate(folder / keys.CERTIFICATE)
    after.verify_directly_issued_by(authority)
    assert after.serial_number != before.serial_number and after.public_key() != before.public_key()
    names = [each.extensions.get_extension_for_class(x509.SubjectAlternativeName).value for each in (before, after)]
    assert names[0] == names[1] and after.not_valid_after_utc <= authority.not_valid_after_utc
    assert [(folder / name).read_bytes() for name in (keys.AUTHORITY, keys.SECRET, FILE, "node-0")] == kept
    assert turnout("certify", folder, "--renew", "--host", "new.example.org")[0] == 0
    renewed = keys.read_certificate(folder / keys.CERTIFICATE).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert renewed.value.get_values_for_type(x509.DNSName) == ["new.example.org", "localhost"]


def test_a_folder_without_the_authoritys_key_cannot_be_renewed(folder):
    (folder / keys.AUTHORITY_KEY).unlink()
    code, _, errors = turnout("certify", folder, "--renew")
    assert code == 2 and "has no ca.key, which signs certificates" in errors


def made(path: Path, names: list[str], key, signed_by=None) -> Path:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(signed_by or key, hashes.SHA256())
    content = request.public_bytes(Encoding.DER)
    if signed_by is not None:
        numbers = [each.public_key().public_numbers() for each in (signed_by, key)]
        theirs, mine = (number.x.to_bytes(32) + number.y.to_bytes(32) for number in numbers)
        content = content.replace(theirs, mine)
    path.write_bytes(x509.load_der_x509_csr(content).public_bytes(Encoding.PEM))
    return path


def test_who_asks_must_have_the_private_key(tmp_path):
    """A request with the public key of another site, signed with one's own."""
    theirs, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    assert read_request(made(tmp_path / "honest", ["a"], theirs))[1] == theirs.public_key()
    with pytest.raises(UserError, match="is not signed by the key that it names"):
        read_request(made(tmp_path / "stolen", ["a"], theirs, own))


@pytest.mark.parametrize(
    ("names", "key", "sentence"),
    [
        ([], ec.generate_private_key(ec.SECP256R1()), "has no name"),
        (["a", "b"], ec.generate_private_key(ec.SECP256R1()), "has no name"),
        (["\x1b[31m"], ec.generate_private_key(ec.SECP256R1()), "has no name"),
        (["a"], ec.generate_private_key(ec.SECP384R1()), "a key of another kind"),
        (["a"], rsa.generate_private_key(65537, 2048), "a key of another kind"),
    ],
)
def test_other_requests_are_refused(tmp_path, names, key, sentence):
    with pytest.raises(UserError, match=sentence):
        read_request(made(tmp_path / "file", names, key))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    file = tmp_path_factory.mktemp("sound") / "north.csr"
    write_request(file)
    return file


@given(st.data())
def test_a_request_that_was_changed_is_refused_or_says_the_same(sound, data):
    original = x509.load_pem_x509_csr(sound.read_bytes()).public_bytes(Encoding.DER)
    place, value = data.draw(st.integers(0, len(original) - 1)), data.draw(st.integers(1, 255))
    content = bytes([*original[:place], original[place] ^ value, *original[place + 1 :]])
    file = sound.with_name("changed.csr")
    try:
        file.write_bytes(x509.load_der_x509_csr(content).public_bytes(Encoding.PEM))
    except ValueError:
        file.write_bytes(content)
    with pytest.raises(UserError, match=f"{file}"):
        read_request(file)


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: f"-----BEGIN CERTIFICATE REQUEST-----\n{text}".encode()))
def test_any_other_file_is_refused_in_a_sentence(sound, content):
    file = sound.with_name("any.csr")
    file.write_bytes(content)
    with pytest.raises(UserError, match="cannot be read as the request of a site"):
        read_request(file)


def test_the_superlinks_nodes_are_those_of_the_registry(folder, request_file):
    """Also when it changes, and when it was edited so that it cannot be read."""
    file = RegistryFile(folder)
    state = LinkStateFactory(":flwr-in-memory:", NoOpFederationManager(), ObjectStoreFactory()).state()
    first = [public(folder / f"node-{i}") for i in range(3)]
    assert admit(file.read(), state) == dict.fromkeys(first)
    for key in first:
        state.activate_node(state.get_node_id_by_public_key(key), 10)

    def online() -> set[bytes]:
        return {node.public_key for node in state.get_node_info(statuses=["online"])}

    assert online() == {*first} and not file.changed
    turnout("revoke", folder, "1")
    turnout("register", folder, request_file)
    new = public(request_file.with_suffix(".key"))
    assert file.changed
    assert admit(file.read(), state) == {first[0]: None, first[1]: REVOKED, first[2]: None, new: None}
    assert online() == {first[0], first[2]} and state.get_node_id_by_public_key(new) is not None
    before = file.registry
    (folder / FILE).write_text(tomllib.loads((folder / FILE).read_text())["client"][0]["name"])
    assert file.changed and file.read() is before and not file.changed
    (folder / FILE).unlink()
    assert file.changed and file.read() is before and not file.changed


def test_certificates_hold_by_the_strict_rules_of_later_pythons(tmp_path):
    """A handshake in memory, with the checks that Python makes by itself from 3.13 on."""
    keys.write_all(tmp_path, ["localhost"], range(1))
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=tmp_path / keys.AUTHORITY)
    server.load_cert_chain(tmp_path / keys.CERTIFICATE, tmp_path / keys.KEY)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there, server_hostname="localhost"), server.wrap_bio(there, back, server_side=True)]
    for _ in range(4):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    assert ends[0].getpeercert()["subject"]
