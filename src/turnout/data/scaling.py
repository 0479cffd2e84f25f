"""Scaling features: rows of length 1, or columns of mean 0 and standard deviation 1."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class Scaling:
    """A scaling of features, fitted on the training rows: (a_k - mean_k) / deviation_k, 0 where the deviation is 0; or a / |a|.

    Args:
        normalize: "columns" or "rows".
        means: mean_k [d], for "columns".
        deviations: deviation_k [d], for "columns".
    """

    normalize: Literal["rows", "columns"]
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()

    def scaled(self, features: Any) -> Any:
        """Return the scaled features.

        Args:
            features: Features [rows, d], for "rows" also sparse ones.
        """
        if self.normalize == "rows":
            return unit_rows(features)
        means, deviations = np.array(self.means), np.array(self.deviations)
        # Powers of two change no digit, and keep differences from overflowing.
        powers = np.ldexp(1.0, -np.frexp(np.maximum(np.abs(means), deviations))[1].clip(-1000, 1000))
        centred, divisor = features * powers - means * powers, np.where(deviations > 0, deviations * powers, 1)
        return np.where(deviations > 0, centred / divisor, 0)


def fitted_scaling(normalize: Literal["rows", "columns"], features: Any) -> Scaling:
    """Return the scaling of training rows; columns that do not vary have the deviation 0.

    Args:
        normalize: "columns" or "rows".
        features: Features [rows, d], for "rows" also sparse ones.
    """
    if normalize == "rows" or not len(features):
        return Scaling("rows") if normalize == "rows" else Scaling("columns", *[(0.0,) * features.shape[1]] * 2)
    # Powers of two change no digit, and keep sums and squares from overflowing and vanishing.
    powers = np.ldexp(1.0, -np.frexp(np.abs(features).max(axis=0))[1].clip(-1000, 1000))
    scaled = features * powers
    means = scaled.mean(axis=0)
    deviations = np.where((scaled != scaled[:1]).any(axis=0), (scaled - means).std(axis=0), 0)
    return Scaling("columns", tuple((means / powers).tolist()), tuple((deviations / powers).tolist()))


def unit_rows(features: Any) -> Any:
    """Return features as rows of length 1, divided by their largest entry first so that squares neither overflow nor vanish."""
    if isinstance(features, np.ndarray):
        scaled = features / _or_one(np.abs(features).max(axis=1, initial=0))[:, None]
        return scaled / _or_one(np.linalg.norm(scaled, axis=1))[:, None]
    owner = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    largest = np.zeros(features.shape[0])
    np.maximum.at(largest, owner, np.abs(features.data))
    scaled = features.data / largest[owner]
    lengths = np.sqrt(np.bincount(owner, scaled**2, minlength=features.shape[0]))
    from scipy.sparse import csr_array

    return csr_array((scaled / lengths[owner], features.indices, features.indptr), shape=features.shape)


def _or_one(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 1)
