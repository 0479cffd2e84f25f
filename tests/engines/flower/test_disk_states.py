"""The files of private states: only their owner reads them, and their names are digests."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from turnout.engines.flower.state_store import DiskReply, DiskStates


def test_only_the_owner_reads_states_and_replies(tmp_path):
    states, reply = DiskStates(tmp_path / "own", np.zeros(3)), DiskReply(tmp_path / "own" / "last")
    states[3, 1] = np.ones(3)
    reply.put(bytes(32), b"reply")
    assert states[3, 1].tolist() == [1, 1, 1]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "own").iterdir()} == {0o600}
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


VERSIONS = st.tuples(*2 * [st.integers(-1, 2**31 - 1)])


@pytest.mark.longer
@given(st.dictionaries(VERSIONS, st.floats(allow_nan=False), max_size=6), st.sets(VERSIONS, max_size=3), st.data())
def test_versions_that_are_kept_are_there_after_a_restart(tmp_path_factory, written, others, data):
    folder = tmp_path_factory.mktemp("node")
    states = DiskStates(folder, np.zeros(()))
    for version, value in written.items():
        states[version] = np.asarray(value)
    names = {path.name for path in folder.iterdir()}
    assert len(names) == len(written) and all(re.fullmatch(r"[0-9a-f]{64}\.state", name) for name in names)
    kept = data.draw(st.sets(st.sampled_from([*written]))) if written else set()
    states.keep(kept | others)
    found = DiskStates(folder, np.zeros(()))
    for version in {*written} | others:
        if version in kept | others and version in written:
            assert found[version] == written[version]
        else:
            with pytest.raises(KeyError):
                found[version]


def test_states_under_other_names_are_removed_with_those_that_are_not_needed(tmp_path):
    """Their names were versions once."""
    (tmp_path / "3_1.state").write_bytes(b"")
    states = DiskStates(tmp_path, np.zeros(3))
    with pytest.raises(KeyError):
        states[3, 1]
    states[4, 0] = np.ones(3)
    states.keep({(4, 0)})
    assert len([*tmp_path.iterdir()]) == 1 and states[4, 0].tolist() == [1, 1, 1]


@given(st.tuples(*2 * [st.text(min_size=1) | st.floats() | st.none() | st.just("../other/7")]))
def test_only_whole_numbers_name_a_state(tmp_path_factory, version):
    folder = tmp_path_factory.mktemp("node")
    states = DiskStates(folder / "own", np.zeros(3))
    with pytest.raises((ValueError, TypeError)):
        states[version] = np.ones(3)
    assert [*folder.rglob("*.state")] == []
