"""K-means clusters of rows as strata of clients."""

from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Lt

from turnout.core.errors import UserError
from turnout.core.extras import extra
from turnout.core.kept import kept
from turnout.core.records import Count, config
from turnout.data.dataset import Dataset, is_sparse_matrix
from turnout.data.splits.split import Split, enough_rows

FEW = 2**22
"""Stored numbers that one thread clusters sooner than several."""


@config
class KMeansSplit:
    """The strata are k-means clusters of the rows; each is shuffled and divided into clients of nearly equal size.

    Args:
        clusters: Number of clusters.
        clients_per_cluster: Number of clients of each cluster.
        seed: Seed of k-means and of the shuffles.
        kind: The name of the split in configurations.

    Examples:
        >>> from turnout.data import KMeansSplit, load
        >>> split = KMeansSplit(clusters=3, clients_per_cluster=2).split(load("iris"))
        >>> split.strata.tolist(), split.sizes.tolist()
        ([0, 0, 1, 1, 2, 2], [31, 31, 25, 25, 19, 19])
    """

    clusters: Count
    clients_per_cluster: Count
    seed: Annotated[int, Ge(0), Lt(2**32)] = 0
    kind: Literal["kmeans"] = "kmeans"

    def split(self, dataset: Dataset) -> Split:
        """Return the split of `dataset`, with the clusters as strata."""
        enough_rows(self.kind, dataset, self.clusters * self.clients_per_cluster)
        cluster = _kmeans(dataset, self.clusters, self.seed)
        generator = np.random.default_rng(self.seed)
        parts = []
        for number in range(self.clusters):
            rows = generator.permutation(np.flatnonzero(cluster == number))
            if rows.size < self.clients_per_cluster:
                raise UserError(
                    f"split 'kmeans': cluster {number} of {dataset.name} has {rows.size} rows, too few for "
                    f"{self.clients_per_cluster} clients: take fewer clusters or fewer clients_per_cluster"
                )
            parts += np.array_split(rows, self.clients_per_cluster)
        strata = np.repeat(np.arange(self.clusters), self.clients_per_cluster)
        return Split.of(parts, dataset.rows, strata)


def _kmeans(dataset: Dataset, clusters: int, seed: int) -> np.ndarray:
    """Return the cluster of each row."""
    features: Any = dataset.flat().features
    arrays = [features.data, features.indices, features.indptr] if is_sparse_matrix(features) else [features]
    parts = (*arrays, features.shape, clusters, seed)
    (found,) = kept("kmeans", parts, ("scikit-learn",), lambda: [_fit(features, clusters, seed)])
    return found


def _fit(features, clusters: int, seed: int) -> np.ndarray:
    """Return the cluster of each row of `features`."""
    import warnings

    # Slow to import.
    cluster = extra("sklearn.cluster", "split 'kmeans'", "data")
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    # On few numbers several threads mostly wait for each other: one is sooner, and far sooner beside other programs.
    with threadpool_limits(1 if features.size <= FEW else None), warnings.catch_warnings():
        # With fewer distinct rows than clusters a cluster is empty, which raises an error below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cluster.KMeans(clusters, n_init=10, random_state=seed).fit_predict(features)
