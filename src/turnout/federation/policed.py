"""A node with a policy: it takes a server's configuration if it is within the policy."""

from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from hashlib import sha256
from pathlib import Path

from turnout.core.errors import UserError
from turnout.engines.flower.client_app import Service
from turnout.engines.request import Refused
from turnout.experiment.build import Built
from turnout.experiment.config import Experiment
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
    """

    def __init__(self, own: Experiment, built: Built, client: int, folder: Path, log: AuditLog, policy: Policy):
        self.own, self.built, self.client, self.folder, self.policy = own, built, client, folder, policy
        self._worker, self._running = ThreadPoolExecutor(1), Future()
        self._running.set_result(b"")
        policy.check(own, built)
        super().__init__(handshake_of(own, built), node_of(own, built, client, folder, policy), log)
        if self._file.exists():
            self._resume()

    def answer(self, kind: str, header: bytes, body, digest: bytes) -> bytes:
        self.policy.check_hours()
        if kind == "hello":
            if header and sha256(header).hexdigest() != self.handshake.configuration:
                self._take(header)
            return super().answer(kind, header, body, digest)
        self.policy.check_request(kind.partition("_")[0], header, len(header) + len(body))
        if self.policy.request_seconds is None:
            return super().answer(kind, header, body, digest)
        if not self._running.done():
            raise Refused("this node still works on a request that took longer than it allows")
        self._running = self._worker.submit(super().answer, kind, header, body, digest)
        try:
            return self._running.result(self.policy.request_seconds)
        except Late:
            raise Refused(
                f"the request takes longer than {self.policy.request_seconds:g} s, the most that is allowed here"
            ) from None

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
            node = node_of(experiment, self.built, self.client, self.folder, self.policy)
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
