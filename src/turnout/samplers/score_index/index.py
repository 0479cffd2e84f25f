"""`ScoreIndex`: the scores of very many clients, from which cohorts are drawn."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from turnout.core.errors import UserError
from turnout.samplers.score_index.buckets import MAX_SCORE, make_buckets
from turnout.samplers.score_index.draw import draw_independent, draw_with_replacement
from turnout.samplers.score_index.probabilities import probabilities_of, update_coefficients
from turnout.samplers.score_index.update import OUTSIDE, TWICE, first_invalid, set_scores

MAX_CLIENTS = 2**31 - 1
"""Client ids have 32 bits."""


class ScoreIndex:
    """Scores a_i >= 0 of n clients, and draws of K of them, in O(K log K + B) operations per round.

    p_i = min(1, a_i / nu) with sum p = K for independent draws, q_i = a_i / sum_j a_j with `replacement`; both are mixed with the
    uniform distribution by the weight theta. B <= 8178 is the number of buckets; new scores move the drawn clients through the
    buckets between their old and their new ones, and do not touch other clients. Memory: 16 bytes per client.

    Args:
        scores: a_i of each client [n]; a negative number stands for a client without feedback, whose score is the absolute value
            times a `unit` that all of them share.
        size: K, the number of clients drawn, or the expected number of independent draws.
        theta: Weight of the uniform distribution, in [0, 1].
        mixes_before_cap: Whether scores are mixed with their mean before the cap, instead of p with K / n after it.
        replacement: Whether K clients are drawn with replacement, instead of each client independently.
        unit: The unit; 0 while it is not known, which counts as 1.

    Raises:
        UserError: There are too many clients, or a score is too large.
    """

    def __init__(
        self, scores: Float[np.ndarray, " n"], size: float, theta: float, *, mixes_before_cap: bool, replacement: bool,
        unit: float = 0.0,
    ):  # fmt: skip
        if not 1 <= scores.size <= MAX_CLIENTS:
            raise UserError(f"draws need between 1 and {MAX_CLIENTS} clients, but there are {scores.size}")
        self.size, self.theta, self.version = float(size), float(theta), 0
        self.mixes_before_cap, self.replacement = mixes_before_cap, replacement
        self._take(scores, unit)

    def _take(self, scores, unit: float, order=None) -> None:
        _refuse(float(np.abs(scores).max()))
        buckets = make_buckets(scores, order)
        if buckets is None:
            raise UserError(
                "the order of the clients in this checkpoint does not belong to their scores: take another checkpoint"
            )
        self._buckets = buckets
        self._renew(unit)

    def _renew(self, unit: float) -> None:
        self.unit = unit
        update_coefficients(self._buckets, self.size, self.theta, self.mixes_before_cap, self.replacement, unit or 1.0)

    @property
    def clients(self) -> int:
        """n, the number of clients."""
        return self._buckets.client.size

    @property
    def nbytes(self) -> int:
        """Bytes of the index."""
        return sum(array.nbytes for array in self._buckets)

    def draw(self, generator: np.random.Generator) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Draw a cohort; return the ids [k], with repeats if drawn with replacement, and their p_i (q_i with replacement).

        Args:
            generator: NumPy's random generator.
        """
        if self.replacement:
            return draw_with_replacement(self._buckets, int(self.size), self.theta, generator)
        return draw_independent(self._buckets, self.size, generator)

    def scores(self, ids: Int[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """Return the scores of the clients `ids`, negative for clients without feedback."""
        return self._buckets.client["score"][ids]

    def set(self, ids: Int[np.ndarray, " k"], scores: Float[np.ndarray, " k"], unit: float) -> None:
        """Set the scores of the clients `ids`, and the unit of the clients without feedback.

        Args:
            ids: Ids of the clients, each once.
            scores: Their new scores >= 0 [k].
            unit: The unit.

        Raises:
            UserError: An id or a score is invalid; nothing is changed then.
        """
        ids, scores = np.ascontiguousarray(ids, np.int64), np.ascontiguousarray(scores, np.float64)
        bad, kind = first_invalid(self._buckets.client, ids, scores)
        if bad >= 0 and kind in (OUTSIDE, TWICE):
            what = f"is not one of the {self.clients} clients" if kind == OUTSIDE else "comes twice"
            raise UserError(f"feedback to a sampler is wrong: client {ids[bad]} {what}")
        _refuse(float(scores[bad]) if bad >= 0 else unit)
        set_scores(self._buckets, ids, scores)
        self._renew(unit)

    def probabilities(self, ids: Int[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """Return p_i of each client of `ids` in the next draw (q_i with replacement)."""
        return probabilities_of(self._buckets, np.ascontiguousarray(ids, np.int64))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of what `restore` needs: 12 bytes per client."""
        return {
            **{name: self._buckets.client[name].copy() for name in ("score", "order")},
            "unit": np.asarray(self.unit),
            "version": np.asarray(self.version),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the state that `arrays` returned: with the same random numbers, draws continue bit for bit.

        Args:
            arrays: What `arrays` returned.
        """
        scores, order = (np.asarray(arrays[name]) for name in ("score", "order"))
        if scores.shape != (self.clients,) or order.shape != scores.shape:
            raise UserError(f"the checkpoint has {scores.size} clients, and the sampler {self.clients}: take another checkpoint")
        self._take(scores, float(arrays["unit"]), order)
        self.version = int(arrays["version"])


def _refuse(score: float) -> None:
    """Raise `UserError` for a score, or a unit of scores, that is not from 0 to `MAX_SCORE`."""
    if not 0 <= score < MAX_SCORE:
        raise UserError(
            f"the score of a client is {score:g} after its feedback: check it, it may be too large beside that of others"
        )
