"""Private states of clients on disk: any version that was saved can be restored, and files stay small."""

import jax
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from turnout.core.errors import UserError
from turnout.engines.state_file import StateFile

CLIENTS, LIKE = 7, [jax.ShapeDtypeStruct((2, 3), np.float64), jax.ShapeDtypeStruct((), np.int32)]


def states_of(seed, count):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(count, 2, 3)), rng.integers(0, 9, count).astype(np.int32)]


def read(file, ids):
    known, into = np.zeros(ids.size, bool), [np.empty((ids.size, *leaf.shape), leaf.dtype) for leaf in LIKE]
    file.read(ids, known, into)
    return known, into


@settings(max_examples=40, stateful_step_count=25, deadline=None)
class Histories(RuleBasedStateMachine):
    """A file of states beside a dict of them."""

    @initialize()
    def begin(self):
        self.file, self.states, self.saved = StateFile(None, LIKE, CLIENTS), {}, None

    @rule(ids=st.sets(st.integers(0, CLIENTS - 1), min_size=1), seed=st.integers(0, 999))
    def write(self, ids, seed):
        ids = np.array(sorted(ids))
        new = states_of(seed, ids.size)
        self.file.write(ids, new)
        self.states |= {int(i): [leaf[k] for leaf in new] for k, i in enumerate(ids)}

    @rule()
    def save(self):
        self.saved = self.file.saved(), dict(self.states)

    @rule()
    def restore(self):
        if self.saved is not None:
            saved, self.states = self.saved[0], dict(self.saved[1])
            self.file.restore(saved)

    @invariant()
    def all_are_there(self):
        ids = np.arange(CLIENTS)
        known, found = read(self.file, ids)
        assert {*ids[known].tolist()} == {*self.states}
        for i, state in self.states.items():
            for one, other in zip(state, found, strict=True):
                np.testing.assert_array_equal(one, other[i])


TestHistories = Histories.TestCase


def test_another_process_goes_on_from_the_folder(tmp_path):
    file = StateFile(tmp_path, LIKE, CLIENTS)
    for k in range(50):
        file.write(np.array([1, 4]), states_of(k, 2))
    saved = file.saved()
    file.write(np.array([1]), states_of(99, 1))
    other = StateFile(tmp_path, LIKE, CLIENTS)
    other.restore(saved)
    known, found = read(other, np.arange(CLIENTS))
    assert known.nonzero()[0].tolist() == [1, 4]
    np.testing.assert_array_equal(found[0][[1, 4]], states_of(49, 2)[0])
    # Old states were left behind.
    record = 8 + 6 * 8 + 4
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= (50 * 2 + 3) * record and saved["records"] == 2


def test_a_file_that_is_gone_is_told(tmp_path):
    file = StateFile(tmp_path, LIKE, CLIENTS)
    file.write(np.array([1, 4]), states_of(0, 2))
    saved = file.saved()
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match="missing or cut off"):
        StateFile(tmp_path, LIKE, CLIENTS).restore(saved)
