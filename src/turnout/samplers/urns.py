"""How clients fill the urns of clustered sampling: each urn is a distribution over clients."""

import numpy as np
from jaxtyping import Float, Int

from turnout.samplers.clustering import Vectors

ROUNDING = 1e-9
"""Masses below it are attributed to rounding."""

Segments = tuple[Int[np.ndarray, " segments"], Float[np.ndarray, " segments"]]
Urn = list[tuple[int, float]]


def urns_by_weight(shares: Float[np.ndarray, " n"], size: int) -> Segments:
    """Return the urns that the clients fill in decreasing order of lambda_i (Fraboni et al., 2021, Algorithm 1).

    Args:
        shares: lambda_i [n].
        size: m, the number of urns.
    """
    masses = size * shares / shares.sum()
    return _laid_out(_poured([[] for _ in range(size)], masses, np.argsort(-masses, kind="stable").tolist()), masses.size)


def urns_by_similarity(shares: Float[np.ndarray, " n"], vectors: Vectors, size: int) -> Segments:
    """Return the urns that groups of clients with similar vectors fill (Fraboni et al., 2021, Algorithm 2).

    Args:
        shares: lambda_i [n].
        vectors: One vector for each client [n, d].
        size: m, the number of urns.
    """
    masses = size * shares / shares.sum()
    whole = np.floor(masses + ROUNDING).astype(int)
    left = np.where(masses - whole > ROUNDING, masses - whole, 0)
    urns: list[Urn] = [[(i, 1.0)] for i in np.repeat(np.arange(masses.size), whole).tolist()]
    groups = sorted(_groups(left, vectors), key=lambda group: -left[group].sum())
    alone = size - len(urns)
    urns += [[(i, float(left[i])) for i in group] for group in groups[:alone]]
    others = [i for group in groups[alone:] for i in group]
    return _laid_out(_poured(urns, left, others), masses.size)


def _groups(masses: Float[np.ndarray, " n"], vectors: Vectors) -> list[list[int]]:
    """Return the clients of the largest subtrees of Ward's clustering whose masses sum to at most 1, without empty clients."""
    # Slow to import.
    from scipy.cluster.hierarchy import linkage

    clients = np.flatnonzero(masses)
    trees = {place: [i] for place, i in enumerate(clients.tolist())}
    merges = linkage(_angles(vectors[clients]), "ward")[:, :2].astype(int).tolist() if clients.size > 1 else []
    for number, pair in enumerate(merges, clients.size):
        # A tree above one that is too heavy is too heavy as well.
        if all(tree in trees for tree in pair) and sum(masses[trees[tree]].sum() for tree in pair) <= 1 + ROUNDING:
            trees[number] = [i for tree in pair for i in trees.pop(tree)]
    return list(trees.values())


def _angles(vectors: Vectors) -> Float[np.ndarray, " pairs"]:
    """Return the angle of each pair of vectors, row by row, a right one where a vector is 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(lengths > 0, lengths, 1)
    return np.arccos(np.clip(units @ units.T, -1, 1))[np.triu_indices(len(vectors), 1)]


def _poured(urns: list[Urn], masses: Float[np.ndarray, " n"], clients: list[int]) -> list[Urn]:
    """Return the urns after the masses of `clients`, in this order, fill what they have left of a capacity of 1."""
    room, k = [1 - sum(mass for _, mass in urn) for urn in urns], 0
    for i in clients:
        mass = masses[i]
        while mass > ROUNDING and k < len(urns):
            poured = min(mass, room[k])
            if poured > ROUNDING:
                urns[k].append((i, float(poured)))
                room[k], mass = room[k] - poured, mass - poured
            k += room[k] <= ROUNDING
    return urns


def _laid_out(urns: list[Urn], count: int) -> Segments:
    """Return the clients and the ends of all segments, n + m - 1 of them with empty ones at the end."""
    ids, ends = [], []
    for k, urn in enumerate(urns):
        masses = np.cumsum([mass for _, mass in urn])
        ids += [i for i, _ in urn]
        ends += [*(k + masses[:-1] / masses[-1]), k + 1.0]
    unused = count + len(urns) - 1 - len(ids)
    return np.array([*ids, *[ids[-1]] * unused], np.int32), np.array([*ends, *[float(len(urns))] * unused])
