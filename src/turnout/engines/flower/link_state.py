"""A SuperLink's state: runs and nodes in its database, messages on their way in memory, large objects in files.

With all of it in the database, an exchange with fifty nodes takes four times as long. A SuperLink that is started again knows its
runs and nodes, and no messages: the server sends these again.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, cast

from flwr.common.constant import Status
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.task_pb2 import Task
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkState, LinkStateFactory, SqlLinkState
from flwr.server.superlink.linkstate.in_memory_linkstate import RunRecord
from flwr.supercore.constant import NodeStatus
from flwr.supercore.object_store.in_memory_object_store import InMemoryObjectStore
from flwr.supercore.run import Run, RunStatus

VALID_SECONDS = 1.0
"""How long what was read from the database stays valid."""

SMALL = 2**16
"""Most bytes of an object that is kept in memory."""

BOOKING_SECONDS = 0.1
"""Least time between two entries of traffic in the database."""

IN_MEMORY = (
    "federation_manager", "object_store", "start_session", "delete_sessions_in_run", "preregister_object_tree", "store_object",
    "get_object", "store_message_and_object_tree", "store_message_ins", "get_message_ins", "store_message_res",
    "get_message_res", "num_message_ins", "num_message_res", "delete_messages", "get_message_ids_from_run_id", "cleanup_run",
    "get_node_id_by_public_key", "get_task_by_token", "get_run_status", "finish_task", "store_traffic", "add_clientapp_runtime",
)  # fmt: skip
"""The parts of a state that do not go to the database."""


class Recent(Mapping[Any, Any]):
    """A table that is read again after `VALID_SECONDS`, and for a key that it lacks or whose value may change at any moment.

    Args:
        read: Returns the table, or the part with a key.
        lasting: Whether a value may be used without reading it again.
    """

    def __init__(self, read: Callable[[Any], dict], lasting: Callable[[Any], bool] = lambda value: True):
        self._read, self._lasting = read, lasting
        self._table: dict = {}
        self._until = 0.0

    def __getitem__(self, key):
        if time.monotonic() > self._until or key not in self._table or not self._lasting(self._table[key]):
            self._table, self._until = self._read(key), time.monotonic() + VALID_SECONDS
        return self._table[key]

    def forget(self) -> None:
        """Read again whatever is asked for next."""
        self._until = 0.0

    def __iter__(self) -> Iterator:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class FileStore(InMemoryObjectStore):
    """Keeps objects of more than `SMALL` bytes in files without a name.

    Args:
        folder: Folder of the files.
    """

    def __init__(self, folder: Path):
        super().__init__()
        self.folder = folder
        self.files: dict[str, IO[bytes]] = {}

    def put(self, object_id: str, object_content: bytes) -> None:
        if len(object_content) <= SMALL or object_id in self.files:
            super().put(object_id, object_content)
            return
        file = TemporaryFile(dir=self.folder)
        try:
            # A disk that is full is noticed before the object counts as stored.
            file.write(object_content)
            file.flush()
            super().put(object_id, object_content)
        except Exception:
            with suppress(OSError):
                file.close()
            raise
        self.files[object_id], self.store[object_id].content = file, b""

    def get(self, object_id: str) -> bytes | None:
        with self.lock_store:
            if (file := self.files.get(object_id)) is None:
                return super().get(object_id)
            file.seek(0)
            return file.read()

    def delete(self, object_id: str) -> None:
        with self.lock_store:
            super().delete(object_id)
            if object_id not in self.store and object_id in self.files:
                self.files.pop(object_id).close()


class MessagesInMemory(InMemoryLinkState):
    """A state whose messages are in memory; all else is in a database, which is read for them once a second.

    Args:
        records: The state in the database.
        folder: Folder of large objects.
    """

    def __init__(self, records: SqlLinkState, folder: Path):
        super().__init__(records.federation_manager, FileStore(folder))
        self.federation_manager.linkstate = records
        for name in {name for name in dir(LinkState) if not name.startswith("_")} - {*IN_MEMORY}:
            setattr(self, name, getattr(records, name))
        self._records = records
        self._keys = Recent(lambda _: {node.public_key: node.node_id for node in records.get_node_info() if is_registered(node)})
        self._tasks = Recent(lambda token: {token: records.get_task_by_token(token)})
        self._traffic, self._booked = Counter(), 0.0
        self._runs = Recent(lambda _: {run.run_id: RunRecord(run) for run in records.get_run_info()})
        nodes = Recent(lambda _: {node.node_id: node for node in records.get_node_info()}, is_online)
        # What the messages' part of Flower's state reads of nodes and runs.
        vars(self).update(nodes=nodes, run_ids=self._runs)

    def get_node_id_by_public_key(self, public_key: bytes) -> int | None:
        return self._keys.get(public_key)

    def get_task_by_token(self, token: str) -> Task | None:
        return self._tasks[token]

    def get_run_status(self, run_ids: set[int]) -> dict[int, RunStatus]:
        return {run: self._get_run(run).status for run in run_ids if run in self._runs}

    def finish_task(self, task_id: int, sub_status: str, details: str) -> bool:
        finished = self._records.finish_task(task_id, sub_status, details)
        self._book()
        self._tasks.forget()
        self._runs.forget()
        for run, status in self._records.get_run_status({*self._runs}).items():
            if status.status == Status.FINISHED:
                self.cleanup_run(run)
        return finished

    def store_traffic(self, run_id: int, *, bytes_sent: int, bytes_recv: int) -> None:
        self._traffic += Counter({(run_id, "bytes_sent"): bytes_sent, (run_id, "bytes_recv"): bytes_recv})
        if time.monotonic() > self._booked + BOOKING_SECONDS:
            self._book()

    def add_clientapp_runtime(self, run_id: int, runtime: float) -> None:
        """Forget it: nobody reads it."""

    def _book(self) -> None:
        """Enter the traffic since the last time into the database."""
        traffic, self._traffic, self._booked = self._traffic, Counter(), time.monotonic()
        for run in {run for run, _ in traffic}:
            self._records.store_traffic(run, **{name: traffic[run, name] for name in ("bytes_sent", "bytes_recv")})

    def _get_run(self, run_id: int) -> Run:
        return self._runs[run_id].run


def is_registered(node: NodeInfo) -> bool:
    """Whether a node has not left for good."""
    return node.status != NodeStatus.UNREGISTERED


def is_online(node: NodeInfo) -> bool:
    """Whether a node sends heartbeats."""
    return node.status == NodeStatus.ONLINE


def keep_messages_in_memory(factory: LinkStateFactory) -> None:
    """Let the state that a factory gives be one that keeps messages in memory.

    Args:
        factory: The factory of a SuperLink, whose database is a file.
    """
    records = cast(SqlLinkState, factory.state())
    factory.state_instance = MessagesInMemory(records, Path(factory.database).parent)
    records._object_store = factory.state_instance.object_store
