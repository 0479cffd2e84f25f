"""Ports of this machine."""

import socket


def free_port() -> int:
    """Return a port of this machine that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
