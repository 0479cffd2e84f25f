"""A node with a policy: it takes a server's configuration if it is within the policy."""

from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from functools import partial
from hashlib import sha256
from pathlib import Path

from turnout.core.background import in_background
from turnout.core.errors import UserError
from turnout.engines.flower.client_app import Service
from turnout.engines.request import Refused
from turnout.experiment.build import Built
from turnout.experiment.experiment import Experiment
from turnout.federation.handshake import check_for_federation, handshake_of
from turnout.federation.node import node_of
from turnout.federation.policy import Policy
from turnout.io.atomic import write
from turnout.io.audit import AuditLog

LONGEST = 2**20
"""Most bytes of a configuration."""


class PolicedService(Service):
    """Answers for the configuration that the server sends with its greeting, if it is within the `policy`.

    The configuration is stored beside the states, for a node that is restarted during a run.

    Args:
        own: The node's own configuration, which defines its data.
        built: The problem built from it.
        client: Id of the client.
        folder: Folder of the private states.
        log: The log.
        policy: The policy.
        sum_key: File of the members' key for encrypted sums.
    """

    def __init__(
        self,
        own: Experiment,
        built: Built,
        client: int,
        folder: Path,
        log: AuditLog,
        policy: Policy,
        sum_key: Path | None = None,
    ):
        self.sum_key = sum_key
        self.own, self.built, self.client, self.folder, self.policy = own, built, client, folder, policy
        self._running: Future = Future()
        self._running.set_result(b"")
        policy.check(own, built)
        super().__init__(handshake_of(own, built), node_of(own, built, client, folder, policy, sum_key), log)
        if self._file.exists():
            self._resume()

    def answer(self, kind: str, header: bytes, body, digest: bytes) -> bytes:
        self.policy.check_hours()
        if kind == "hello" and (not header or sha256(header).hexdigest() == self.handshake.configuration):
            return self.greeting()
        if not self._running.done():
            raise Refused("this node still works on a request that took longer than it allows")
        if kind == "hello":
            self._take(header)
            return self.greeting()
        self.policy.check_request(kind.partition("_")[0], header, len(header) + len(body))
        seconds = self.policy.request_seconds
        answer = partial(super().answer, kind, header, body, digest)
        if seconds is None:
            return answer()
        self._running = in_background(answer)
        try:
            return self._running.result(seconds)
        except Late:
            raise Refused(f"the request takes longer than {seconds:g} s, which is not allowed here") from None

    @property
    def rows(self) -> int:
        return super().rows if self.policy.rows_told else 1

    def _take(self, text: bytes) -> None:
        """Answer for another configuration from now on, if it is within the policy."""
        if len(text) > LONGEST:
            raise Refused(f"a configuration of {len(text)} bytes is not allowed here, at most {LONGEST}")
        experiment = self.policy.parse(text.decode(errors="replace"), self.own)
        self.policy.check(experiment, self.built)
        try:
            check_for_federation(experiment, self.built)
            node = node_of(experiment, self.built, self.client, self.folder, self.policy, self.sum_key)
        except UserError as error:
            raise Refused(str(error)) from None
        self.handshake, self.node = handshake_of(experiment, self.built), node
        write(self._file, text, private=True)

    def _resume(self) -> None:
        """Take the configuration that was taken last, unless the policy has become another one."""
        try:
            self._take(self._file.read_bytes())
        except Refused:
            self._file.unlink()

    @property
    def _file(self) -> Path:
        return self.folder / f"accepted-{self.client}.toml"
