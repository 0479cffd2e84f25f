"""Deterministic clustering of the clients into strata, by one vector per client."""

from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from turnout.core.errors import UserError
from turnout.core.extras import extra
from turnout.core.kept import kept
from turnout.problems.at_optimum import at_optimum
from turnout.problems.base import Problem
from turnout.problems.row_formats import plain

EXACT = 10
"""Largest number of clients for which `optimal_strata` is exact."""

STARTS = 8
"""Number of initial partitions of the local search of `optimal_strata`."""

SLACK = 1e-12
"""Improvements below this share of a sum of squared distances are attributed to rounding."""

Vectors = Float[np.ndarray, "n d"]
Strata = Int[np.ndarray, " n"]


def by_rows(problem: Problem, clusters: int, seed: int = 0) -> Strata:
    """Return the k-means strata of the clients' mean feature rows.

    Args:
        problem: The problem.
        clusters: Number of strata.
        seed: Seed of the initial centres.
    """
    features = _features_and_labels(problem)[0]
    bounds = pairwise(problem.offsets.tolist())
    means = [np.asarray(plain(features, first, last).mean(axis=0), float).ravel() for first, last in bounds]
    return kmeans_strata(np.array(means), clusters, seed)


def by_labels(problem: Problem, clusters: int, seed: int = 0) -> Strata:
    """Return the k-means strata of the clients' label shares; entry c is the fraction of a client's rows with label c.

    Args:
        problem: The problem.
        clusters: Number of strata.
        seed: Seed of the initial centres.
    """
    return kmeans_strata(label_shares(problem), clusters, seed)


def label_shares(problem: Problem) -> Vectors:
    """Return the label shares of the clients [n, c]; entry c is the fraction of a client's rows with label c.

    Args:
        problem: A problem with classes.

    Raises:
        UserError: Where it keeps no labels, or has no classes.
    """
    labels = _features_and_labels(problem)[1]
    if not problem.classifies:
        raise UserError(f"strata by labels need classes, which {type(problem).__name__} does not have: take by = 'rows'")
    classes, label = np.unique(labels, return_inverse=True)
    shares = np.zeros((problem.clients, classes.size))
    np.add.at(shares, (np.repeat(np.arange(problem.clients), problem.sizes), label), 1)
    return shares / problem.sizes[:, None]


def by_optimum(problem: Problem, clusters: int) -> Strata:
    """Return `optimal_strata` of lambda_i grad f_i(x*); an oracle, because a run does not know the minimiser x*.

    Args:
        problem: The problem.
        clusters: Number of strata.
    """
    weights, gradients = problem.population.weights, at_optimum(problem).gradients
    return optimal_strata(gradients if weights is None else gradients * np.asarray(weights)[:, None], clusters)


def _features_and_labels(problem: Problem):
    if not (isinstance(problem.rows, tuple) and len(problem.rows) == 2):
        raise UserError(f"strata by rows or labels need features and labels, which {type(problem).__name__} does not keep")
    return problem.rows


def kmeans_strata(features: Vectors, clusters: int, seed: int = 0) -> Strata:
    """Return the k-means clusters [n] of `features`, numbered from 0.

    An empty cluster gets the client that is farthest from its centre.

    Args:
        features: One vector for each client [n, d].
        clusters: Number of strata.
        seed: Seed of the initial centres.
    """
    _check_clusters(features, clusters)
    parts = (features, clusters, seed)
    strata, centres = kept("kmeans-strata", parts, ("scikit-learn",), lambda: _kmeans(features, clusters, seed))
    distances = np.sum((features - centres[strata]) ** 2, axis=1)
    for empty in np.setdiff1d(np.arange(clusters), strata):
        spare = np.bincount(strata, minlength=clusters)[strata] > 1
        strata[np.argmax(np.where(spare, distances, -1))] = empty
    return strata


def _kmeans(features: Vectors, clusters: int, seed: int) -> list[np.ndarray]:
    """Return the cluster of each of the `features` [n], and the centres [clusters, d]."""
    import warnings

    # Slow to import.
    cluster = extra("sklearn.cluster", "k-means of clients", "data")
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        # With fewer distinct vectors than clusters some cluster is empty, which the caller fills.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = cluster.KMeans(clusters, n_init=10, random_state=seed).fit(features)
    return [fitted.labels_.astype(int), fitted.cluster_centers_]


def balanced_strata(vectors: Vectors, clusters: int, seed: int = 0) -> Strata:
    """Return the clusters [n], numbered from 0, of balanced k-means: sizes differ by at most one.

    Centres and assignments are updated in turn; each assignment has the least sum of squared distances.

    Args:
        vectors: One vector for each client [n, d].
        clusters: Number of strata.
        seed: Seed of the initial centres.
    """
    from scipy.optimize import linear_sum_assignment

    cluster = extra("sklearn.cluster", "k-means of clients", "data")
    _check_clusters(vectors, clusters)
    n = len(vectors)
    places = np.arange(n) % clusters
    centres = cluster.kmeans_plusplus(vectors, clusters, random_state=seed)[0]
    strata = np.full(n, -1)
    while True:
        distances = np.sum((vectors[:, None] - centres[None]) ** 2, axis=2)
        assigned = places[linear_sum_assignment(distances[:, places])[1]]
        if _cost(distances, assigned) >= (1 - SLACK) * _cost(distances, strata):
            return strata
        strata = assigned
        centres = np.array([vectors[strata == j].mean(axis=0) for j in range(clusters)])


def _cost(distances: Float[np.ndarray, "n b"], strata: Strata) -> float:
    """Return the sum of the clients' distances to the centres of their strata; infinite without strata."""
    return np.inf if strata[0] < 0 else float(distances[np.arange(strata.size), strata].sum())


def optimal_strata(gradients: Vectors, clusters: int) -> Strata:
    """Return the strata [n] in `clusters` parts that minimise sum_j |C_j| / n^2 sum_{i in C_j} |g_i - mean of C_j|^2.

    This is the variance of stratified sampling (Cohort Squeeze, Yi et al., 2024, section 2.3 and Definition 11, there at x*), and
    n^-2 times the sum of |g_i - g_l|^2 over the pairs within strata. Up to EXACT clients the minimum is exact. Beyond, it is the
    best of STARTS local searches from balanced partitions: swaps of two clients until no swap improves, then also moves of one.

    If n is a multiple of `clusters`, with m clients per stratum, the result is no worse than NICE sampling (Lemma 2), whose
    variance is the share (m - 1) / (n - 1) of the sum over all pairs: if the pairs within strata had a larger share, the gains
    of all swaps would have a positive sum, so some swap would still improve.

    Args:
        gradients: g_i [n, d].
        clusters: Number of strata.
    """
    _check_clusters(gradients, clusters)
    between = _squared_distances(gradients)
    if len(gradients) <= EXACT:
        return _best_partition(between, clusters)
    vectors, generator = gradients / max(np.abs(gradients).max(), np.finfo(float).tiny), np.random.default_rng(0)
    places = np.arange(len(vectors)) % clusters
    starts = [balanced_strata(vectors, clusters), *(generator.permutation(places) for _ in range(STARTS - 1))]
    candidates = [_descend(between, _descend(between, start, clusters, moves=False), clusters, moves=True) for start in starts]
    return min(candidates, key=lambda strata: between[strata[:, None] == strata].sum())


def _squared_distances(vectors: Vectors) -> Float[np.ndarray, "n n"]:
    """Return |v_i - v_l|^2 up to a factor that avoids overflow and underflow."""
    vectors = vectors / max(np.abs(vectors).max(), np.finfo(float).tiny)
    vectors = vectors - vectors.mean(axis=0)
    squares = np.sum(vectors**2, axis=1)
    distances = np.maximum(squares[:, None] + squares[None] - 2 * vectors @ vectors.T, 0)
    np.fill_diagonal(distances, 0)
    return distances


def _best_partition(between: Float[np.ndarray, "n n"], clusters: int) -> Strata:
    """Return the partition that minimises the sum of `between` over pairs within parts, by dynamic programming over subsets."""
    n = len(between)
    masks = np.arange(2**n)
    members = (masks[:, None] >> np.arange(n)) & 1
    cost = np.einsum("ki,il,kl->k", members, between, members) / 2
    # The part with a mask's lowest client is split off first, so that each partition is tried in one order only.
    parts = [masks[(masks & ~mask) == 0] for mask in masks]
    parts = [part[(part & mask & -mask) > 0] for mask, part in zip(masks, parts, strict=True)]
    best, choices = np.where(masks == 0, 0.0, np.inf), []
    for _ in range(clusters):
        values = [cost[part] + best[mask ^ part] for mask, part in zip(masks, parts, strict=True)]
        choices.append([part[np.argmin(value)] if value.size else 0 for part, value in zip(parts, values, strict=True)])
        best = np.array([value.min(initial=np.inf) for value in values])
    strata, left = np.zeros(n, int), masks[-1]
    for j, choice in enumerate(reversed(choices)):
        strata[members[choice[left]] > 0] = j
        left ^= choice[left]
    return strata


def _descend(between: Float[np.ndarray, "n n"], strata: Strata, clusters: int, moves: bool) -> Strata:
    """Swap clients of two strata, or with `moves` also move one, while that decreases the sum of `between` within strata."""
    strata, clients, improved = strata.copy(), np.arange(len(strata)), True
    tolerance = -SLACK * between.sum()
    while improved:
        improved = False
        # to[i, j] is the cost of client i in stratum j, recomputed in each pass to limit rounding.
        to = between @ np.eye(clusters)[strata]
        current = to[clients, strata]
        for i in clients:
            stratum = strata[i]
            swap = to[i, strata] - current[i] + to[:, stratum] - current - 2 * between[i]
            swap[strata == stratum] = 0
            partner = np.argmin(swap)
            move = np.argmin(to[i]) if moves else stratum
            gain_of_move = to[i, move] - current[i]
            if min(swap[partner], gain_of_move) >= tolerance:
                continue
            moved = {i: strata[partner], partner: stratum} if swap[partner] <= gain_of_move else {i: move}
            for client, target in moved.items():
                to[:, strata[client]] -= between[client]
                to[:, target] += between[client]
                strata[client] = target
            current, improved = to[clients, strata], True
    return strata


def _check_clusters(vectors: Vectors, clusters: int) -> None:
    if not 1 <= clusters <= len(vectors):
        raise UserError(f"{len(vectors)} clients cannot form {clusters} strata with a client each: take from 1 to {len(vectors)}")
