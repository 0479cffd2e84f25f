"""The files of private states: only their owner reads them, and no message names them."""

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
    assert [*states] == [(3, 1)] and states[3, 1].tolist() == [1, 1, 1]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "own").iterdir()} == {0o600}
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


@given(st.tuples(*2 * [st.text(min_size=1) | st.floats() | st.none() | st.just("../other/7")]))
def test_only_whole_numbers_become_part_of_a_path(tmp_path_factory, version):
    folder = tmp_path_factory.mktemp("node")
    states = DiskStates(folder / "own", np.zeros(3))
    with pytest.raises((ValueError, TypeError)):
        states[version] = np.ones(3)
    assert [*folder.rglob("*.state")] == []
