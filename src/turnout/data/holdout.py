"""Held-out clients, which are never drawn and measure how the model generalises to new clients."""

import numpy as np

from turnout.core.errors import UserError
from turnout.data.splits import Split


def hold_out(split: Split, clients: float, seed: int) -> tuple[Split, Split]:
    """Divide the clients of a split into training and held-out clients.

    Args:
        split: The split of all clients.
        clients: How many to hold out: a whole number, or a share below 1.
        seed: Seed of the uniform draw.

    Returns:
        The split of the training clients, and that of the held-out clients.

    Raises:
        UserError: The number is not whole, or leaves no training clients.
    """
    count = max(1, round(clients * split.clients)) if clients < 1 else clients
    if count != int(count) or not 1 <= count < split.clients:
        raise UserError(
            f"held_out is a whole number of clients, or a share below 1, and leaves some of the {split.clients} clients to train "
            f"with, but it is {clients:g}: give another one"
        )
    held = np.sort(np.random.default_rng(seed).choice(split.clients, int(count), replace=False))
    return only(split, np.setdiff1d(np.arange(split.clients), held)), only(split, held)


def only(split: Split, clients: np.ndarray) -> Split:
    """Return the split of `clients` only, in this order, with strata renumbered from 0.

    Args:
        split: Rows of each client.
        clients: Ids of clients [k].
    """
    strata = None if split.strata is None else np.unique(split.strata[clients], return_inverse=True)[1]
    return Split.of([split.rows(i) for i in clients.tolist()], int(split.indices.max()) + 1, strata)
