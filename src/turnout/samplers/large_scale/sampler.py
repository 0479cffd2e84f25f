"""The large-scale sampler: adaptive draws and updates whose cost does not grow with the number of clients."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from turnout.core.errors import UserError
from turnout.samplers.large_scale.buckets import MAX_SCORE, make_buckets
from turnout.samplers.large_scale.draw import draw_independent, draw_with_replacement
from turnout.samplers.large_scale.probabilities import probabilities_of, update_coefficients
from turnout.samplers.large_scale.rules import Observation, Rule
from turnout.samplers.large_scale.update import first_invalid

MAX_CLIENTS = 2**31 - 1
"""Client ids have 32 bits."""


class LargeScaleSampler:
    """Draw K of N clients by a rule's probabilities and learn from feedback, in O(K log K + B) operations per round.

    The sampler runs on the server with NumPy, outside of compiled runs: it is for populations of 10^5 to 10^9 clients, where a
    `turnout.Sampler` that holds arrays over all clients is too slow. B <= 8178 is the number of buckets; an update moves each
    drawn client through the buckets between its old and its new score, and does not touch other clients. Memory: 16 bytes per
    client, and 8 more for the weights of `LastNorm`.

    Args:
        rule: How clients are scored: `KVib`, `Vrb`, `LastNorm`, `BySize` or `Uniform` of this package.
        size: K, the number of clients drawn per round, or the expected number under rules that draw independently.
        clients: N, the number of clients; not needed with `weights`.
        weights: Numbers >= 0 [N], such as the clients' row counts, for rules that use weights.

    Raises:
        UserError: If the size, the number of clients or the weights do not fit.

    Examples:
        >>> import numpy as np
        >>> from turnout.samplers.large_scale import KVib, LargeScaleSampler
        >>> sampler = LargeScaleSampler(KVib(rounds=1000), size=4, clients=100)  # compiles for some seconds
        >>> ids, p = sampler.draw(np.random.default_rng(0))
        >>> p.round(2).tolist() == [0.04] * len(ids)
        True
        >>> sampler.observe(ids, np.ones(len(ids)))
    """

    def __init__(self, rule: Rule, size: int, clients: int | None = None, weights: Any = None):
        weights = _weights_of(rule, weights)
        clients = clients if weights is None else weights.size
        if clients is None or not 1 <= clients <= MAX_CLIENTS:
            raise UserError(f"a large-scale sampler needs between 1 and {MAX_CLIENTS} clients, but got {clients}")
        self._set_up(rule, size, rule.values(clients, weights), weights, 0.0)

    def _set_up(self, rule: Rule, size: int, value, weights, unit: float, order=None) -> None:
        if not 1 <= size <= value.size:
            raise UserError(f"the size of a cohort must be between 1 and the {value.size} clients, but it is {size}")
        buckets = make_buckets(value, rule.square_root, order)
        if buckets is None:
            raise UserError("the order in this checkpoint does not belong to its values: take another checkpoint")
        self.rule, self.size, self.clients = rule, size, value.size
        self._theta, self._unit, self._buckets = rule.theta(size, value.size), unit, buckets
        self._weights = weights if rule.needs_weights is None else None
        self._update_coefficients()

    def _update_coefficients(self) -> None:
        rule, fresh = self.rule, self._unit or 1.0
        update_coefficients(self._buckets, float(self.size), self._theta, rule.mixes_before_cap, rule.replacement, fresh)

    def draw(self, generator: np.random.Generator) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """Draw a cohort; return the ids [k], with repeats if drawn with replacement, and their p_i (q_i with replacement)."""
        if self.rule.replacement:
            return draw_with_replacement(self._buckets, self.size, self._theta, generator)
        return draw_independent(self._buckets, self.size, generator)

    def observe(self, ids: Any, feedback: Any) -> None:
        """Update the scores by the feedback pi_i = lambda_i |g_i| >= 0 [k] of all clients of the last draw that replied.

        Args:
            ids: Ids [k] of the clients that replied.
            feedback: pi_i [k].

        Raises:
            UserError: If ids or feedback are invalid; nothing is changed then.
        """
        ids, feedback = self._ids(ids), np.ascontiguousarray(feedback, np.float64)
        if feedback.shape != ids.shape:
            raise UserError(f"observe needs one feedback for each of {ids.size} clients, but its shape is {feedback.shape}")
        bad, kind = first_invalid(self._buckets.client, ids, feedback, not self.rule.replacement)
        if kind == 1:
            raise UserError(f"client {ids[bad]} is not one of the {self.clients} clients: ids are 0 to {self.clients - 1}")
        if kind == 2:
            raise UserError(
                f"feedback must be at least 0 and below {MAX_SCORE:.2g}, but that of client {ids[bad]} is {feedback[bad]:g}"
            )
        if kind == 3:
            raise UserError(f"client {ids[bad]} comes twice: give its feedback once")
        if ids.size:
            observation = Observation(self._buckets, self.size, self._theta, self._weights, ids, feedback)
            self._unit = self.rule.observe(observation, self._unit)
            self._update_coefficients()

    def probability(self, ids: Any) -> Float[np.ndarray, " k"]:
        """Return the inclusion probability p_i of each client of `ids` in the next draw (q_i per draw with replacement)."""
        ids = self._ids(ids)
        bad, _ = first_invalid(self._buckets.client, ids, np.zeros(ids.size), False)
        if bad >= 0:
            raise UserError(f"client {ids[bad]} is not one of the {self.clients} clients: ids are 0 to {self.clients - 1}")
        return probabilities_of(self._buckets, ids)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the arrays that `restore` needs, for `numpy.savez`: 12 bytes per client, 20 with weights."""
        arrays = {name: self._buckets.client[name].copy() for name in ("value", "order")}
        arrays["unit"], arrays["rule"] = np.array(self._unit), np.array(f"{self.rule!r} with size {self.size}")
        return arrays if self._weights is None else {**arrays, "weights": self._weights.copy()}

    @classmethod
    def restore(cls, rule: Rule, size: int, arrays: Any) -> "LargeScaleSampler":
        """Return the sampler that gave `arrays`; with a generator in the same state, its draws continue bit for bit.

        Args:
            rule: The rule that the sampler had.
            size: The size that it had.
            arrays: What `arrays` returned.
        """
        missing = [name for name in ("value", "order", "unit", "rule") if name not in arrays]
        if missing:
            raise UserError(f"a checkpoint of a large-scale sampler needs the array {missing[0]!r}: give what arrays() returned")
        stored, wanted = str(arrays["rule"]), f"{rule!r} with size {size}"
        if stored != wanted:
            raise UserError(f"the checkpoint is of {stored}, not of {wanted}: give the same rule and size")
        value, order = np.array(arrays["value"], np.float64), np.array(arrays["order"], np.int32)
        unit = float(arrays["unit"])
        weights = np.array(arrays["weights"], np.float64) if "weights" in arrays else None
        if value.ndim != 1 or not value.size or order.shape != value.shape or not rule.allows(value, unit):
            raise UserError("the values or the order in this checkpoint are damaged: take another checkpoint")
        sampler = cls.__new__(cls)
        sampler._set_up(rule, size, value, weights, unit, order)
        return sampler

    def _ids(self, ids: Any) -> Int[np.ndarray, " k"]:
        ids = np.asarray(ids)
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise UserError(f"ids must be whole numbers in one dimension, but they are {ids.dtype} of shape {ids.shape}")
        return np.ascontiguousarray(ids, np.int64)


def _weights_of(rule: Rule, weights: Any) -> Float[np.ndarray, " n"] | None:
    """Return the checked weights [n], normalised to sum 1 if the rule's weights are optional."""
    name = type(rule).__name__
    if weights is None:
        if rule.needs_weights:
            raise UserError(f"{name} needs the clients' weights: give weights")
        return None
    if rule.needs_weights is False:
        raise UserError(f"{name} takes no weights because its feedback contains them: give the number of clients")
    weights = np.array(weights, np.float64)
    if weights.ndim != 1 or not np.all((weights >= 0) & (weights < MAX_SCORE)) or not weights.any():
        raise UserError("weights must be finite numbers of at least 0 in one dimension, and not all 0")
    return weights if rule.needs_weights else weights / weights.sum()
