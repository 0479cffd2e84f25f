"""The SuperLink's state: messages in memory, runs and nodes in a database that a SuperLink which is started again reads."""

import resource
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from flwr.app import ConfigRecord, Metadata, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.common.constant import NOOP_FLWR_AID, ErrorCode, Status, SubStatus
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, ObjectTree, PullObjectRequest, PushObjectRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PushAppMessagesRequest
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_id, get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.servicer.runtime import runtime_handlers

from turnout.engines.flower import link_state
from turnout.engines.flower.link_state import SMALL, FileStore, MessagesInMemory, Recent, keep_messages_in_memory

# Flower's migrations of its database.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator found:DeprecationWarning")


class Made(NamedTuple):
    """A state, its run, the task of the run's server with its token, and a node."""

    state: MessagesInMemory
    run: int
    token: str
    node: int

    @property
    def task(self):
        return self.state.get_task_by_token(self.token)


def opened(folder: Path) -> MessagesInMemory:
    """The state of a SuperLink that is started on a folder."""
    database = str(folder / "superlink.db")
    factory = LinkStateFactory(database, NoOpFederationManager(), ObjectStoreFactory(database))
    keep_messages_in_memory(factory)
    return factory.state()


@pytest.fixture
def made(tmp_path) -> Made:
    state = opened(tmp_path)
    run = state.create_run("a/b", "1", "hash", {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP)
    task = state.get_run_info(run_ids=[run])[0].primary_task_id
    token = state.claim_task(task)
    state.activate_task(task)
    node = state.create_node(NOOP_FLWR_AID, "", b"key", 30.0)
    state.activate_node(node, 30.0)
    return Made(state, run, token, node)


def sent(made: Made, size: int) -> str:
    """Send a message of so many bytes to the node as a server does, and return its id."""
    metadata = Metadata(made.run, "", 1, made.node, "", "", time.time(), 600.0, "query")
    message = make_message(metadata, RecordDict({"body": ConfigRecord({"bytes": bytes(size)})}))
    vars(metadata).update(_message_id=message.object_id)
    announced = runtime_handlers.push_messages(
        PushAppMessagesRequest(
            messages_list=[message_to_proto(remove_content_from_message(message))],
            message_object_trees=[get_object_tree(message)],
        ),
        made.state,
        made.task,
    )
    for name, part in get_all_nested_objects(message).items():
        pushed = PushObjectRequest(
            run_id=made.run, session_id=announced.session_id, object_id=name, object_content=part.deflate()
        )
        pushed.node.node_id = 1
        assert runtime_handlers.push_object(pushed, made.state, made.task).stored
    return announced.message_ids[0]


def asked(made: Made, message: str) -> list[int]:
    """Ask for the reply to a message as a server does, and return the codes of errors that come."""
    response = runtime_handlers.pull_messages(PullAppMessagesRequest(message_ids=[message]), made.state, made.task)
    return [reply.error.code for reply in response.messages_list]


@pytest.mark.longer
@pytest.mark.parametrize("size", [10, 2 * SMALL])
def test_a_message_is_kept_until_it_is_confirmed_large_ones_in_files(made, size):
    message = sent(made, size)
    store = made.state.object_store
    assert len(store.files) == (size > SMALL) and len(store) == 3
    contents = [made.state.get_object(made.run, name) for name in store.store]
    assert max(map(len, contents)) > size
    (delivered,) = made.state.get_message_ins(made.node, limit=1)
    assert delivered.metadata.message_id == message and not made.state.get_message_ins(made.node, limit=1)
    assert asked(made, message) == []
    runtime_handlers.confirm_message_received(ConfirmMessageReceivedRequest(message_object_id=message), made.state, made.task)
    assert not len(store) and not store.files


@pytest.mark.longer
def test_a_superlink_that_is_started_again_knows_runs_and_nodes_but_no_messages(made, tmp_path):
    message = sent(made, 10)
    assert asked(made, message) == []
    again = made._replace(state=opened(tmp_path))
    assert again.task.run_id == made.run and again.state.get_node_id_by_public_key(b"key") == made.node
    assert asked(again, message) == [ErrorCode.MESSAGE_UNAVAILABLE]
    assert asked(again, sent(again, 10)) == []


@pytest.mark.longer
def test_a_run_that_ends_leaves_no_messages_and_all_of_its_traffic(made):
    for size in (10, 2 * SMALL):
        sent(made, size)
        made.state.store_traffic(made.run, bytes_sent=size, bytes_recv=1)
    assert made.state.finish_task(made.task.task_id, SubStatus.COMPLETED, "")
    assert made.state.num_message_ins() == len(made.state.object_store) == len(made.state.object_store.files) == 0
    (run,) = made.state.get_run_info(run_ids=[made.run])
    assert (run.bytes_sent, run.bytes_recv, run.status.status) == (10 + 2 * SMALL, 2, Status.FINISHED)


@pytest.mark.longer
def test_a_node_that_goes_is_unknown_after_a_second_and_one_that_comes_is_known_at_once(made, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(link_state, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert made.state.get_node_id_by_public_key(b"other") is None
    other = made.state.create_node(NOOP_FLWR_AID, "", b"other", 30.0)
    assert made.state.get_node_id_by_public_key(b"other") == other
    made.state.delete_node(NOOP_FLWR_AID, other)
    now[0] = 2.0
    assert made.state.get_node_id_by_public_key(b"other") is None


def test_a_table_is_read_once_a_second_and_for_what_may_change(monkeypatch):
    now, reads, content = [0.0], [], {"a": 1, "b": 2}

    def read(key):
        reads.append(key)
        return dict(content)

    monkeypatch.setattr(link_state, "time", SimpleNamespace(monotonic=lambda: now[0]))
    table = Recent(read, lambda value: value != 2)
    assert [table["a"], table["a"], table["b"], table["b"], table.get("c")] == [1, 1, 2, 2, None]
    assert reads == ["a", "b", "b", "c"]
    content["a"] = 4
    assert table["a"] == 1
    now[0] = 1.5
    assert table["a"] == 4


def test_an_object_that_found_the_disk_full_is_stored_whole_or_not_at_all(tmp_path):
    store, content = FileStore(tmp_path), ConfigRecord({"bytes": bytes(3 * SMALL)}).deflate()
    name = get_object_id(content)
    store.preregister(1, ObjectTree(object_id=name))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * SMALL, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            store.put(name, content)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert store.get(name) == b"" and not store.files
    store.put(name, content)
    assert store.get(name) == content and len(store.files) == 1
    store.delete(name)
    assert not store.files


@pytest.mark.longer
def test_an_object_that_is_not_in_the_store_is_said_to_be_missing(made):
    request = PullObjectRequest(run_id=made.run, object_id="0" * 64)
    request.node.node_id = 1
    assert not runtime_handlers.pull_object(request, made.state, made.task).object_found
