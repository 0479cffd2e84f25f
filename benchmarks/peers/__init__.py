"""Other frameworks on the same data: each program runs in an environment of its own, so that this module imports nothing."""


def measure():
    """Return how many times as many rounds a second turnout plays as each peer; `bench/peers.json` and `.md` have the rest."""
    from benchmarks.peers.compare import measure

    return measure()
