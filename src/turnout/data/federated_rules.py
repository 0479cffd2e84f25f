"""Rules of preprocessing for clients with tables of their own, which find means and deviations by exchanges of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from turnout.core.errors import UserError
from turnout.data.catalogue import load
from turnout.data.preprocessing import ColumnRule, Preprocessing
from turnout.data.scaling import Scaling
from turnout.problems.base import Population
from turnout.problems.means import Means

ROUNDING = 1e-12
"""A deviation below this, relative to a column's mean, is one of rounding."""

LACKING = "lacks values in all rows of all clients: leave it out"


class FederatedRules:
    """The columns that the tables of all clients have; their means and deviations are the minimisers of two problems.

    What fills gaps, the mean of a column of numbers and the most frequent one of its categories, follows from the means z of

        (v_k, or 0 where it is missing; 1 where it is missing)    and    (1 where v_k is the category, for each of these),

    over all rows; deviations follow from the means of (a_k - mean_k)^2 of the features a. Each takes one exchange of gradient
    descent, `t.Gd(t.Full(), lr=1.0)`, with weights "size": counted, and with privacy charged, like any other.

    Args:
        columns: For each column its categories, the bounds (low, high) between which its numbers are known to lie, or None.
        indicator: Whether each column gets a further one that says where a value was missing.

    Raises:
        UserError: There is no column, or one has neither categories nor bounds, where low is below high.

    Examples:
        >>> import numpy as np
        >>> import turnout as t
        >>> from turnout.data import FederatedRules, load
        >>> rules = FederatedRules({"age": None, "city": ["north", "south"]})
        >>> one = {"age": [30.0, None], "city": ["north", "north"], "y": [0, 1]}
        >>> tables = [one, {"age": [60.0], "city": ["south"], "y": [1]}]
        >>> clients = [rules.means(table, label="y") for table in tables]
        >>> problem = t.Remote.of(np.zeros(rules.size), clients, weights=[2, 1])
        >>> means = t.run(t.Gd(t.Full(), lr=1.0), problem, rounds=1, engine="nodes").x
        >>> load(tables[0], label="y", preprocessing=rules.filled(means)).features.round(9).tolist()
        [[30.0, 1.0, 0.0], [45.0, 1.0, 0.0]]
    """

    def __init__(self, columns: Mapping[str, Sequence | None], indicator: bool = False):
        if not columns:
            raise UserError("rules need the columns that all clients have: give at least one")
        self.indicator = indicator
        self._rules, self._spans = [], []
        for name, known in columns.items():
            number = known is None or (len(known) == 2 and all(isinstance(end, (int, float)) for end in known))
            if number:
                low, high = known or (-1.0, 1.0)
                if not low < high:
                    raise UserError(f"column {name!r} has the bounds {low} and {high}: give the lower one first")
                rule = ColumnRule(name, "number", fill=(low + high) / 2, indicator=True)
            else:
                categories = tuple(sorted(map(str, known)))
                if not categories or len({*categories}) < len(categories):
                    raise UserError(f"column {name!r} has the categories {categories}: give each of them once")
                rule = ColumnRule(name, "category", categories=categories, fill=categories[0], indicator=True)
                low, high = -1.0, 1.0
            self._rules.append(rule)
            self._spans.append((float(low + high) / 2, float(high - low) / 2))

    @property
    def size(self) -> int:
        """The number of means in the first exchange."""
        return sum(len(rule.names) for rule in self._rules)

    def means(self, table: Any, **columns: Any) -> Means:
        """Return the problem of a client in the first exchange.

        Args:
            table: Its table, as `load` takes it.
            **columns: What `load` is told of it, such as label="bought".
        """
        centres, spans = self._per_feature(self._rules)
        return _problem((_features(table, columns, Preprocessing(tuple(self._rules))) - centres) / spans)

    def filled(self, means: Float[np.ndarray, " d"]) -> Preprocessing:
        """Return rules that fill gaps, whose features are not scaled.

        Args:
            means: The minimiser of the first exchange [d].

        Raises:
            UserError: A column lacks values in all rows.
        """
        return Preprocessing(tuple(rule for rule, _ in self._fitted(means)))

    def variances(self, means: Float[np.ndarray, " d"], table: Any, **columns: Any) -> Means:
        """Return the problem of a client in the second exchange.

        Args:
            means: The minimiser of the first exchange [d].
            table: Its table, as `load` takes it.
            **columns: What `load` is told of it.
        """
        centres, (_, spans) = self._centres(means), self._per_feature(rule for rule, _ in self._fitted(means))
        return _problem(((_features(table, columns, self.filled(means)) - centres) / spans) ** 2)

    def scaled(self, means: Float[np.ndarray, " d"], variances: Float[np.ndarray, " e"]) -> Preprocessing:
        """Return rules that fill gaps and scale features to mean 0 and deviation 1, as `normalize = "columns"` does.

        Args:
            means: The minimiser of the first exchange [d].
            variances: The minimiser of the second exchange [e].
        """
        _, spans = self._per_feature(rule for rule, _ in self._fitted(means))
        centres = self._centres(means)
        # Noise may make a variance negative, and rounding that of a column that does not vary positive.
        deviations = spans * np.sqrt(np.maximum(variances, 0))
        deviations = np.where(deviations > ROUNDING * np.maximum(np.abs(centres), spans), deviations, 0)
        scaling = Scaling("columns", tuple(centres.tolist()), tuple(deviations.tolist()))
        return replace(self.filled(means), scalings=(scaling,))

    def features(self, means: Float[np.ndarray, " d"]) -> int:
        """Return the number of features, which is that of variances in the second exchange.

        Args:
            means: The minimiser of the first exchange [d].
        """
        return len(self._centres(means))

    def _centres(self, means) -> np.ndarray:
        """Return the mean of each feature."""
        return np.concatenate([centres for _, centres in self._fitted(means)])

    def _fitted(self, means) -> list[tuple[ColumnRule, np.ndarray]]:
        """Return the rule of each column, and the means of its features."""
        first, fitted = 0, []
        for rule, (centre, span) in zip(self._rules, self._spans, strict=True):
            own = np.array(means[first : first + len(rule.names)], float)
            first += len(own)
            missing = own[-1]
            if not missing < 1:
                raise UserError(f"column {rule.name!r} {LACKING}")
            if rule.kind == "number":
                fill = own[0] = centre + span * own[0] / (1 - missing)
            else:
                # Gaps were counted as the first category.
                own[0] -= missing
                # Of categories that are as frequent, up to rounding, the first one.
                fill = rule.categories[int(np.argmax(own[:-1].round(9)))]
                own[rule.categories.index(fill)] += missing
            kept = own if self.indicator else own[:-1]
            fitted.append((replace(rule, fill=float(fill) if rule.kind == "number" else fill, indicator=self.indicator), kept))
        return fitted

    def _per_feature(self, rules) -> tuple[np.ndarray, np.ndarray]:
        """Return the centre and the half width of the bounds of each feature; 0 and 1 of those that are 0 or 1."""
        pairs = []
        for rule, span in zip(rules, self._spans, strict=True):
            own = [(0.0, 1.0)] * len(rule.names)
            pairs += [span, *own[1:]] if rule.kind == "number" else own
        centres, spans = np.array(pairs).T
        return centres, spans


def _features(table: Any, columns: dict, rules: Preprocessing) -> np.ndarray:
    return np.asarray(load(table, preprocessing=rules, **columns).features)


def _problem(rows: np.ndarray) -> Means:
    return Means(rows, np.array([0, len(rows)]), Population(count=1))
