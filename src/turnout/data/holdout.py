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


def hold_rows(split: Split, share: float, seed: int) -> tuple[Split, Split]:
    """Divide the rows of each client into those that it trains with and those that it is tested with.

    Client i is tested with round(share n_i) of its n_i rows, drawn uniformly, but at least one, and trains with at least one.

    Args:
        split: The split of all rows.
        share: The share of rows to test with, between 0 and 1.
        seed: Seed of the draws.

    Returns:
        The split of the training rows, and that of the test rows; client i is the same in both.

    Raises:
        UserError: A client has one row only.

    Examples:
        >>> import numpy as np
        >>> from turnout.data import Split, hold_rows
        >>> train, test = hold_rows(Split.of([np.arange(10), np.arange(10, 15)], rows=15), share=0.2, seed=0)
        >>> train.sizes.tolist(), test.sizes.tolist()
        ([8, 4], [2, 1])
    """
    if split.sizes.min() < 2:
        raise UserError(
            f"client {int(split.sizes.argmin())} has one row, which cannot both train and test: ask the split for min_rows = 2"
        )
    generator, parts = np.random.default_rng(seed), []
    for i in range(split.clients):
        rows = generator.permutation(split.rows(i))
        count = int(np.clip(round(share * rows.size), 1, rows.size - 1))
        parts.append((np.sort(rows[count:]), np.sort(rows[:count])))
    rows = int(split.indices.max()) + 1
    train, test = (Split.of([part[k] for part in parts], rows, split.strata) for k in (0, 1))
    return train, test


def only(split: Split, clients: np.ndarray) -> Split:
    """Return the split of `clients` only, in this order, with strata renumbered from 0.

    Args:
        split: Rows of each client.
        clients: Ids of clients [k].
    """
    strata = None if split.strata is None else np.unique(split.strata[clients], return_inverse=True)[1]
    return Split.of([split.rows(i) for i in clients.tolist()], int(split.indices.max()) + 1, strata)
