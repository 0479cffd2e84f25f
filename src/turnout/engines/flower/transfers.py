"""Replies on their way from the SuperLink to the server, which are fetched side by side."""

import time
from collections.abc import Generator, Iterator

from flwr.app import Error, Message
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectUnavailableError
from flwr.superlink.grid import HttpGrid

from turnout.engines.flower.batches import call_all, call_some
from turnout.engines.flower.chunks import MALFORMED, Latest, Limited, fetch_in_steps


class ObjectLost(ObjectPullError):
    """The SuperLink does not know an object of a message that it has announced."""


class Transfer:
    """One reply on its way.

    Args:
        head: The reply without its content.
        tree: Tree of the objects of the reply.
        limit: Most bytes of the reply's body.
        latest: Returns when an object of any reply came last.

    Attributes:
        wanted: Id of the object that is needed next.
        answer: The SuperLink's answer to the request for it; None before.
    """

    def __init__(self, head: Message, tree, limit: int, latest: Latest):
        self.head, self.wanted, self.answer = head, "", None
        self._pull = Limited(self._take, limit)
        self._steps: Generator[bool, None, Message] = fetch_in_steps(head, tree, self._pull, latest)

    def step(self) -> Message | bool:
        """Go on as far as the objects that are there allow; return the reply, or whether an object has arrived."""
        arrived = False
        try:
            while next(self._steps):
                arrived = True
        except StopIteration as end:
            return end.value
        except ObjectLost as error:
            return self._error(ErrorCode.MESSAGE_UNAVAILABLE, str(error))
        except (ObjectPullError, *MALFORMED) as error:
            known = isinstance(error, ObjectPullError) or self._pull.left < 0
            return self._error(ErrorCode.REPLY_MESSAGE_UNAVAILABLE, str(error) if known else "it is no message of Flower's")
        return arrived

    def close(self) -> None:
        """Give the reply up."""
        self._steps.close()

    def _take(self, name: str) -> bytes:
        answer, self.answer, self.wanted = self.answer, None, name
        if answer is None or answer.object_found and not answer.object_available:
            raise ObjectUnavailableError(name)
        if not answer.object_found:
            raise ObjectLost(name, "the object could not be found.")
        return answer.object_content

    def _error(self, code: int, reason: str) -> Message:
        return make_message(self.head.metadata, error=Error(code, reason))


class Transfers:
    """Fetches the replies to messages. One request to the SuperLink is for the next objects of many replies.

    Args:
        grid: Connection to the SuperLink.
        limit: Most bytes of a reply's body.
    """

    def __init__(self, grid: HttpGrid, limit: int):
        self.grid, self.limit = grid, limit
        self._open: dict[str, Transfer] = {}
        self._ended: list[str] = []
        self._latest = 0.0

    def __len__(self) -> int:
        return len(self._open)

    def look(self, asked: set[str]) -> set[str]:
        """Return the ids of the messages among those `asked` whose replies have arrived, and begin to fetch these."""
        response = self.grid._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=asked))
        heads = [message_from_proto(proto) for proto in response.messages_list]
        new = {
            head.metadata.reply_to_message_id: Transfer(head, tree, self.limit, lambda: self._latest)
            for head, tree in zip(heads, response.message_object_trees, strict=True)
        }
        self._open |= new
        return {*new}

    def advance(self) -> Iterator[tuple[str, Message] | None]:
        """Ask once for what the transfers need; yield the id of a message and its reply, and None for an object of another."""
        yield from self._step([name for name, transfer in self._open.items() if not transfer.wanted])
        waiting = [*self._open.items()]
        answers = call_some(self.grid, "PullObject", [self._request(each.wanted) for _, each in waiting]) if waiting else []
        for (_, transfer), answer in zip(waiting, answers, strict=False):
            transfer.answer = answer
        yield from self._step([name for name, _ in waiting[: len(answers)]])

    def _step(self, names: list[str]) -> Iterator[tuple[str, Message] | None]:
        """Let transfers go on; those that are not complete come last the next time, after those that were not reached."""
        for name in names:
            done = self._open[name].step()
            if done and not (isinstance(done, Message) and done.has_error()):
                self._latest = time.monotonic()
            if isinstance(done, Message):
                self._end(name)
                yield name, done
            else:
                self._open[name] = self._open.pop(name)
                if done:
                    yield None

    def close(self) -> None:
        """Give up the replies that are not complete, and tell the SuperLink that it can forget all of them."""
        for name in [*self._open]:
            self._end(name)
        run = self.grid.run.run_id
        confirmations = (
            ConfirmMessageReceivedRequest(node=self.grid.node, run_id=run, message_object_id=name) for name in self._ended
        )
        for _ in call_all(self.grid, "ConfirmMessageReceived", confirmations):
            pass

    def _end(self, name: str) -> None:
        transfer = self._open.pop(name)
        transfer.close()
        self._ended.append(transfer.head.metadata.message_id)

    def _request(self, name: str) -> PullObjectRequest:
        return PullObjectRequest(node=self.grid.node, run_id=self.grid.run.run_id, object_id=name)
