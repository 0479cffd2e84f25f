"""Flower's SuperLink behind a guard: nodes reach their paths by their keys, and all others need the shared secret.

    python -m turnout.engines.flower.superlink SECRET-FILE [options of flower-superlink]

The nodes are those of the registry in the folder of SECRET-FILE, also while it changes.

Flower asks for no key on the paths that start runs and register nodes (`/v1/control`) or take a run over
(`/v1/runtime/acquire-task`), and reads every request to its end before it checks a key. Here such requests must carry the secret
in the file, and none is read before its sender is known, see `guarded`. A request for messages waits until there are some, see
`long_polling`.
"""

import os
import resource
import sys
from pathlib import Path

import uvicorn
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, NOOP_ACCOUNT_NAME, NOOP_FLWR_AID
from flwr.server.superlink.linkstate import LinkState
from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, _parse_superlink_lifespan_config
from flwr.superlink.main import create_app

from turnout.engines.flower.asgi import call_middleware_directly
from turnout.engines.flower.batches import batched
from turnout.engines.flower.connections import Connection
from turnout.engines.flower.console import dated_config, dated_lines
from turnout.engines.flower.guard import Keys, guarded
from turnout.engines.flower.link_state import keep_messages_in_memory
from turnout.engines.flower.long_poll import long_polling
from turnout.engines.flower.registry import REVOKED, Registry, RegistryFile


def admit(registry: Registry, state: LinkState) -> dict[bytes, str | None]:
    """Make the SuperLink's nodes those of the registry, and return their public keys, and for each why it is refused, or None.

    A revoked node is taken for disconnected.

    Args:
        registry: The clients by key.
        state: The SuperLink's state.
    """
    nodes = {node.public_key: node for node in state.get_node_info() if not node.unregistered_at}
    reasons = {member.key: REVOKED if member.revoked else None for member in registry.members if member.key is not None}
    for key in {key for key, reason in reasons.items() if reason is None} - nodes.keys():
        state.create_node(NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, key, HEARTBEAT_DEFAULT_INTERVAL)
    for key, node in nodes.items():
        if reasons.get(key, REVOKED) is not None:
            state.deactivate_node(node.node_id)
    return reasons


def raise_open_files() -> None:
    """Allow this process as many open files as the system does, since every connection is one."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(now, most), most))


def main() -> None:
    """Serve until stopped."""
    # The database has keys, and files have messages: only the owner may read what this process writes.
    os.umask(0o077)
    file = Path(sys.argv.pop(1))
    secret, registry = file.read_text().strip(), RegistryFile(file.parent)
    call_middleware_directly()
    config = _parse_superlink_lifespan_config()
    superlink = create_app(config, SuperLinkLifespan)
    keep_messages_in_memory(superlink.state.linkstate_factory)
    state = superlink.state.linkstate_factory.state()
    keys = Keys(lambda: admit(registry.read(), state), lambda: registry.changed)
    raise_open_files()
    dated_lines()
    uvicorn.run(
        guarded(long_polling(batched(superlink)), secret, keys),
        http=Connection,
        ws="none",
        host=config.host,
        port=config.port,
        ssl_keyfile=config.ssl_keyfile,
        ssl_certfile=config.ssl_certfile,
        log_config=dated_config(),
        log_level="info",
        # A line for each request would be most of the log, and part of the time of an exchange.
        access_log=False,
    )


if __name__ == "__main__":
    main()
