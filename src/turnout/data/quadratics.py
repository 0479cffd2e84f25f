"""Quadratics of similar clients: random diagonal matrices around a common one."""

import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError

LEAST, MOST = 1.0, 100.0
"""Bounds of the eigenvalues of all A_i."""

FLAT = 1e-3
"""The eigenvalue of flat coordinates."""

Forms = tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"]]


def quadratics(
    clients: int = 100,
    dimension: int = 1000,
    parts: int = 5,
    similarity: float | None = None,
    curvature: float | None = None,
    flat: int = 0,
    seed: int = 0,
    shallow: float = 1.0,
) -> Forms:
    """Draw f_i(x) = (1/b) sum_j <A_ij (x - b_ij), x - b_ij> / 2 with diagonal A_ij (Cost-aware client selection, section 7).

    A_ij = clip(A + E_ij, 1, 100) with A ~ U[0, 110] and E_ij ~ U[0, 18] on the diagonal, and b_ij ~ U[0, 10]. The similarities
    delta and Delta_1 are then random; given a `similarity`, the A_ij are moved instead of clipped (see `calibrated`).

    Args:
        clients: n, the number of clients.
        dimension: d, the number of parameters.
        parts: b, the number of quadratics that each f_i is the mean of.
        similarity: delta = Delta_1, > 0, or None.
        curvature: c > 0 gives the mean of the A_i eigenvalues evenly spaced from c to 10 c, and some f_i may be nonconvex; needs
            a similarity. None means no such condition.
        flat: The number of last coordinates with the eigenvalue 0.001 for every client.
        seed: Seed of the draw.
        shallow: The share of the coordinates, the last ones before the flat ones, that `curvature` is about; the eigenvalues of
            the others are within [1, 100].

    Returns:
        The diagonals of A_i = (1/b) sum_j A_ij and v_i = (1/b) sum_j A_ij b_ij, both [n, d]: f_i(x) = x^T A_i x / 2 - <v_i, x> +
        constant.

    Raises:
        UserError: A number is out of its bounds.

    Examples:
        >>> import turnout as t
        >>> from turnout.data import quadratics
        >>> matrices, vectors = quadratics(clients=4, dimension=6, seed=0)
        >>> t.Quadratic.of(matrices, vectors).start(None).shape
        (6,)
    """
    if clients < 1 or parts < 1 or not 0 <= flat < dimension:
        raise UserError(
            f"quadratics need a client, a part and 0 <= flat < dimension, but got {clients} clients, {parts} parts, "
            f"flat = {flat} and dimension {dimension}"
        )
    if curvature is not None and similarity is None:
        raise UserError("quadratics with a curvature of their mean need a similarity too")
    if curvature is None and shallow != 1:
        raise UserError("shallow is the share of coordinates of that curvature: give curvature too, or leave shallow out")
    generator = np.random.default_rng(seed)
    base = generator.uniform(0, 110, dimension - flat)
    matrices = base + generator.uniform(0, 18, (clients, parts, dimension - flat))
    centres = generator.uniform(0, 10, (clients, parts, dimension))
    if similarity is None:
        matrices = np.clip(matrices, LEAST, MOST)
    else:
        means = matrices.mean(axis=1)
        few = round(shallow * means.shape[1])
        middle = None if curvature is None else np.linspace(curvature, 10 * curvature, few)
        matrices += (calibrated(means, similarity, middle) - means)[:, None]
    matrices = np.pad(matrices, ((0, 0), (0, 0), (0, flat)), constant_values=FLAT)
    return matrices.mean(axis=1), (matrices * centres).mean(axis=1)


def calibrated(
    diagonals: Float[np.ndarray, "n d"], similarity: float, middle: Float[np.ndarray, " k"] | None = None
) -> Float[np.ndarray, "n d"]:
    """Move the diagonals a_i of n >= 3 clients such that delta = Delta_1 = `similarity`.

    All entries are within [1, 100], but the mean of the diagonals at the last k coordinates is `middle`, if that is given.

    h_1 = a_1 - mean a is scaled to max_k |h_1k| = Delta_1. For the others h_i = s e_i - h_1 / (n - 1), e_i = a_i less the mean of
    these, so that sum_i h_i = 0; s solves delta^2 = max_k (1/n) sum_i h_ik^2 = max_k (h_1k^2 / (n - 1) + (s^2 / n) sum_i e_ik^2).

    Args:
        diagonals: a_i [n, d].
        similarity: delta = Delta_1.
        middle: The mean of the diagonals at the last k coordinates [k]; None leaves all open.
    """
    n = len(diagonals)
    if n < 3 or not similarity > 0:
        raise UserError(f"calibrated quadratics need 3 clients and a similarity above 0, but got {n} and {similarity:g}")
    mean = diagonals.mean(axis=0)
    first = diagonals[0] - mean
    first *= similarity / np.abs(first).max()
    others = diagonals[1:] - diagonals[1:].mean(axis=0)
    scale = np.sqrt(np.min((similarity**2 - first**2 / (n - 1)) / (np.sum(others**2, axis=0) / n)))
    deviations = np.vstack([first, scale * others - first / (n - 1)])
    middle = np.zeros(0) if middle is None else middle
    bounded = slice(len(mean) - len(middle))
    lower, upper = LEAST - deviations[:, bounded].min(axis=0), MOST - deviations[:, bounded].max(axis=0)
    if np.any(lower > upper):
        raise UserError(
            f"a similarity of {similarity:g} spreads eigenvalues beyond [{LEAST:g}, {MOST:g}]: lower it, or take fewer parts"
        )
    return np.concatenate([np.clip(mean[bounded], lower, upper), middle]) + deviations
