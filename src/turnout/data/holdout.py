"""Clients that are held out: never drawn, to see how the model does where it was not trained."""

import numpy as np

from turnout.core.errors import UserError
from turnout.data.splits import Split


def hold_out(split: Split, clients: float, seed: int) -> tuple[Split, Split]:
    """Return the split of the clients to train with, and of `clients` others, drawn uniformly: a number, or a share below 1.

    `UserError` where that is no number of clients, or leaves none to train with.
    """
    many = max(1, round(clients * split.clients)) if clients < 1 else clients
    if many != int(many) or not 1 <= many < split.clients:
        raise UserError(
            f"held_out is a whole number of clients, or a share below 1, and leaves some of the {split.clients} clients to train "
            f"with, but it is {clients:g}: give another one"
        )
    held = np.sort(np.random.default_rng(seed).choice(split.clients, int(many), replace=False))
    return only(split, np.setdiff1d(np.arange(split.clients), held)), only(split, held)


def only(split: Split, clients: np.ndarray) -> Split:
    """Return the split of `clients` alone, in this order, their strata numbered anew from 0."""
    strata = None if split.strata is None else np.unique(split.strata[clients], return_inverse=True)[1]
    return Split.of([split.rows(i) for i in clients.tolist()], int(split.indices.max()) + 1, strata)
