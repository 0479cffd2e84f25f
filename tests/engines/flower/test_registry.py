"""The registry of a federation: as certify writes it, as people edit it, and as nobody should."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

import tomli_w
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from tests.helpers.commands import turnout
from turnout.core.errors import UserError
from turnout.engines.flower import keys
from turnout.engines.flower.registry import FILE, MOST_ROWS, Member, Registry

CLIENTS = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of certify."""
    made = tmp_path_factory.mktemp("keys")
    keys.write_all(made, ["localhost"], range(CLIENTS))
    return made


def public(folder, number: int) -> bytes:
    return public_key_to_bytes(keys.read_node_key(folder / f"node-{number}")[1])


@pytest.mark.parametrize("written", [True, False])
def test_the_key_of_a_client_has_its_number(folder, tmp_path, written):
    """Also in a folder without the file, such as one of an earlier version."""
    for path in folder.iterdir():
        if written or path.name != FILE:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    registry = Registry.read(tmp_path, CLIENTS)
    assert registry == Registry(tuple(Member(f"client {i}", public(folder, i)) for i in range(CLIENTS)), MOST_ROWS)
    assert [registry.owner(public(folder, i)) for i in range(CLIENTS)] == [*range(CLIENTS)]
    assert registry.owner(b"another") is None and registry.checks_keys and not Registry.open(3).checks_keys


def test_a_key_of_a_client_that_the_configuration_does_not_have_is_nobodys(folder):
    assert Registry.read(folder, 3).owner(public(folder, 3)) is None


def test_every_client_needs_a_key(folder):
    with pytest.raises(UserError, match="has 12 clients, but the configuration has 13"):
        Registry.read(folder, CLIENTS + 1)


def test_names_and_rows_can_be_edited(folder, tmp_path):
    tables = [{"name": "St. Mary's", "key": str(folder / "node-1.pub"), "rows": 7}, {"key": str(folder / "node-0.pub")}]
    (tmp_path / FILE).write_text(tomli_w.dumps({"most_rows": 9, "client": tables}))
    members = Member("St. Mary's", public(folder, 1), 7), Member("client 1", public(folder, 0))
    assert Registry.read(tmp_path, 2) == Registry(members, 9)


VALUES = st.integers(-1, 2) | st.booleans() | st.floats() | st.text(max_size=9) | st.just("ca.crt") | st.just("node-0.pub")
TABLES = st.dictionaries(st.sampled_from(["name", "key", "rows", "row"]), VALUES)
CONTENTS = st.fixed_dictionaries(
    {}, optional={"client": st.lists(TABLES, max_size=2) | VALUES, "most_rows": VALUES, "more": VALUES}
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CONTENTS.map(lambda content: tomli_w.dumps(content).encode()) | st.binary(max_size=30))
def test_any_file_is_read_or_refused_in_a_sentence(folder, content):
    (folder / FILE).write_bytes(content)
    try:
        registry = Registry.read(folder, 1)
    except UserError as error:
        assert str(folder) in str(error)
    else:
        (member,) = registry.members
        assert member.name and isinstance(member.key, bytes) and registry.most_rows > 0
        assert member.rows is None or member.rows > 0


def test_certify_makes_keys_of_hubs_and_of_their_clients(tmp_path):
    """The registry of a server names hubs, and that of a hub its clients by their numbers in the federation."""
    for options, names in ((("--hubs", 2), ["hub 0", "hub 1"]), (("--clients", "3-4,7"), ["client 3", "client 4", "client 7"])):
        folder = tmp_path / names[0]
        code, out, errors = turnout("certify", folder, "--host", "localhost", *options)
        assert (code, errors) == (0, "") and f"for the machine of {names[0]}: " in out
        registry = Registry.read(folder)
        assert [member.name for member in registry.members] == names
        keys_of = {public_key_to_bytes(keys.read_node_key(file.with_suffix(""))[1]) for file in folder.glob("*.pub")}
        assert keys_of == {member.key for member in registry.members}
    code, _, errors = turnout("certify", tmp_path / "new", "--host", "localhost", "--hubs", 2, "--clients", 2)
    assert code == 2 and "--clients N, or --hubs N" in errors
