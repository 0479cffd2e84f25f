"""The index: it draws from a rule's probabilities and learns from feedback, at a cost that does not grow with the clients."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from turnout.core.errors import UserError
from turnout.samplers.large_scale.buckets import LARGEST, buckets_of
from turnout.samplers.large_scale.draw import coins, repeated
from turnout.samplers.large_scale.probabilities import chances, renew
from turnout.samplers.large_scale.rules import Round, Rule
from turnout.samplers.large_scale.update import first_bad

MOST = 2**31 - 1
"""Clients are numbered in 32 bits."""


class Index:
    """N = `clients` clients under a rule, of whom K = `size` are drawn in a round, or so many in the mean.

    A draw and its feedback take O(K log K + B) operations, and one for each of the B <= 8178 buckets that a drawn client's score
    crosses; the other clients are not touched. `weights` >= 0 [N], such as the clients' numbers of rows, belong to the rules that
    ask for them. It takes 16 bytes a client, and 8 more for the weights of `LastNorm`.
    """

    def __init__(self, rule: Rule, size: int, clients: int | None = None, weights: Any = None):
        weights = _weights_of(rule, weights)
        clients = clients if weights is None else weights.size
        if clients is None or not 1 <= clients <= MOST:
            raise UserError(f"an index needs between 1 and {MOST} clients, but got {clients}")
        self._set_up(rule, size, rule.values(clients, weights), weights, 0.0)

    def _set_up(self, rule: Rule, size: int, value, weights, unit: float, order=None) -> None:
        if not 1 <= size <= value.size:
            raise UserError(f"the size of a cohort must be between 1 and the {value.size} clients, but it is {size}")
        buckets = buckets_of(value, rule.root, order)
        if buckets is None:
            raise UserError("the order in this checkpoint does not belong to its values: take another checkpoint")
        self.rule, self.size, self.clients = rule, size, value.size
        self._theta, self._unit, self._buckets = rule.theta(size, value.size), unit, buckets
        self._weights = weights if rule.weighted is None else None
        self._renew()

    def _renew(self) -> None:
        rule, fresh = self.rule, self._unit or 1.0
        renew(self._buckets, float(self.size), self._theta, rule.mixes_before_cap, rule.replacement, fresh)

    def draw(self, generator: np.random.Generator) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Draw a cohort; return its clients, each as often as it is drawn, and their p_i (with replacement q_i)."""
        if self.rule.replacement:
            return repeated(self._buckets, self.size, self._theta, generator)
        return coins(self._buckets, self.size, generator)

    def observe(self, ids: Any, feedback: Any) -> None:
        """Learn pi_i = lambda_i |g_i| >= 0 [k] of clients of the last draw, all those that answered in one call.

        Raises `UserError` for ids or feedback that cannot be; nothing is changed then.
        """
        ids, feedback = self._ids(ids), np.ascontiguousarray(feedback, np.float64)
        if feedback.shape != ids.shape:
            raise UserError(f"observe needs one feedback for each of {ids.size} clients, but its shape is {feedback.shape}")
        bad, kind = first_bad(self._buckets.client, ids, feedback, not self.rule.replacement)
        if kind == 1:
            raise UserError(f"client {ids[bad]} is not one of the {self.clients} clients: ids are 0 to {self.clients - 1}")
        if kind == 2:
            raise UserError(
                f"feedback must be at least 0 and below {LARGEST:.2g}, but that of client {ids[bad]} is {feedback[bad]:g}"
            )
        if kind == 3:
            raise UserError(f"client {ids[bad]} comes twice: give its feedback once")
        if ids.size:
            seen = Round(self._buckets, self.size, self._theta, self._weights, ids, feedback)
            self._unit = self.rule.learn(seen, self._unit)
            self._renew()

    def probability(self, ids: Any) -> Float[np.ndarray, " k"]:
        """Return p_i of some clients for the next draw: of being in it, or with replacement q_i of each of its K draws."""
        ids = self._ids(ids)
        bad, _ = first_bad(self._buckets.client, ids, np.zeros(ids.size), False)
        if bad >= 0:
            raise UserError(f"client {ids[bad]} is not one of the {self.clients} clients: ids are 0 to {self.clients - 1}")
        return chances(self._buckets, ids)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return a copy of all that `restored` needs, for `numpy.savez`: 12 bytes a client, 20 with weights."""
        arrays = {name: self._buckets.client[name].copy() for name in ("value", "order")}
        arrays["unit"], arrays["rule"] = np.array(self._unit), np.array(f"{self.rule!r} with size {self.size}")
        return arrays if self._weights is None else {**arrays, "weights": self._weights.copy()}

    @classmethod
    def restored(cls, rule: Rule, size: int, arrays: Any) -> "Index":
        """Return the index that gave `arrays`: it draws and learns on to the bit, from a generator in the same state."""
        missing = [name for name in ("value", "order", "unit", "rule") if name not in arrays]
        if missing:
            raise UserError(f"a checkpoint of an index needs the array {missing[0]!r}: give what arrays() returned")
        made, asked = str(arrays["rule"]), f"{rule!r} with size {size}"
        if made != asked:
            raise UserError(f"the checkpoint is of {made}, not of {asked}: give the same rule and size")
        value, order = np.array(arrays["value"], np.float64), np.array(arrays["order"], np.int32)
        unit = float(arrays["unit"])
        weights = np.array(arrays["weights"], np.float64) if "weights" in arrays else None
        if value.ndim != 1 or not value.size or order.shape != value.shape or not rule.allows(value, unit):
            raise UserError("the values or the order in this checkpoint are damaged: take another checkpoint")
        index = cls.__new__(cls)
        index._set_up(rule, size, value, weights, unit, order)
        return index

    def _ids(self, ids: Any) -> Int[np.ndarray, " k"]:
        ids = np.asarray(ids)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise UserError(f"ids must be whole numbers in one dimension, but they are {ids.dtype} of shape {ids.shape}")
        return np.ascontiguousarray(ids, np.int64)


def _weights_of(rule: Rule, weights: Any) -> Float[np.ndarray, " n"] | None:
    """Return the weights [n], finite and at least 0, with sum one where they may be left out, or raise `UserError`."""
    name = type(rule).__name__
    if weights is None:
        if rule.weighted:
            raise UserError(f"{name} needs the clients' weights: give weights")
        return None
    if rule.weighted is False:
        raise UserError(f"{name} takes no weights, its feedback has them in it: give the number of clients")
    weights = np.array(weights, np.float64)
    if weights.ndim != 1 or not np.all((weights >= 0) & (weights < LARGEST)) or not weights.any():
        raise UserError("weights must be finite numbers of at least 0 in one dimension, and not all 0")
    return weights if rule.weighted else weights / weights.sum()
