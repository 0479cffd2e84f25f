"""A cohort: the clients that one draw selected, with all that is needed to weight their replies."""

from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from turnout.core.backend import on_cpu
from turnout.core.errors import UserError
from turnout.core.records import record, static

Selection = Literal["arbitrary", "random", "delegate"]

ROUNDING = 1e-5
"""How far above one a probability may be that was computed in 32 bits."""


@record
class Cohort:
    """The clients of one draw in m places, of which the `active` ones hold a client; a random cohort size leaves places empty.

    With p_i = `probability`, expansion_i = 1 / p_i and weight_i = share_i expansion_i, so that for any r_i
    E[sum_{i in S} expansion_i r_i] = sum_i r_i and E[sum_{i in S} weight_i r_i] = sum_i lambda_i r_i, unless the cohort is
    `biased`. Build it with `Cohort.of`.

    Args:
        ids: Clients [m], 0 to n - 1; a client is in one active place at most.
        active: Places that hold a client [m].
        probability: Inclusion probability p_i of each [m]; with replacement the expected number of times that i is drawn.
        expansion: Number of clients that each stands for [m]: 1 / p_i, or with replacement (times drawn) / p_i.
        share: Weight lambda_i of each in the objective [m].
        weight: lambda_i times the expansion [m].
        selections: Number of selections of kind `selection` that the draw is charged: a full pass over n clients, m at a time,
            is ceil(n / m) arbitrary ones.
        lost: Number of clients that were drawn but did not fit in the m places.
        available: Number of clients that could have been drawn.
        selection: How clients were selected: "arbitrary", "random" or "delegate".
        biased: Whether p_i is not known, so that replies have no unbiased average.

    Examples:
        >>> import jax, turnout as t
        >>> cohort = t.Nice(2).draw(None, jax.random.key(0), t.Population(8))
        >>> cohort.places, cohort.probability.tolist(), cohort.expansion.tolist()
        (2, [0.25, 0.25], [4.0, 4.0])
    """

    ids: Int[Array, " m"]
    active: Bool[Array, " m"]
    probability: Float[Array, " m"]
    expansion: Float[Array, " m"]
    share: Float[Array, " m"]
    weight: Float[Array, " m"]
    selections: Int[Array, ""]
    lost: Int[Array, ""]
    available: Int[Array, ""]
    selection: Selection = static()
    biased: bool = static()

    @classmethod
    def of(
        cls,
        ids,
        probability,
        population,
        *,
        selection: Selection,
        active=None,
        expansion=None,
        selections=1,
        lost=0,
        biased=False,
    ) -> "Cohort":
        """Build the cohort of the clients `ids`, drawn from those available in `population`.

        Where clients are available by chance only, that chance is part of the inclusion probability (K-Vib, appendix E.1). It is
        that of a draw from the clients without a request in flight.

        Args:
            ids: Clients [m], 0 to n - 1, each in one active place at most.
            probability: Inclusion probability in (0, 1], one number or [m]; anything > 0 where `expansion` is given.
            population: Clients to draw from.
            selection: How clients were selected: "arbitrary", "random" or "delegate".
            active: Places that hold a client [m]; default: all.
            expansion: Number of clients that each stands for [m]; default: 1 / `probability`.
            selections: Number of selections that the draw is charged.
            lost: Number of clients that were drawn but did not fit in the m places.
            biased: Whether the inclusion probabilities are not known.

        Raises:
            UserError: Where shapes do not fit, or ids or probabilities are not valid. In a compiled draw their values are not
                known yet, so the run counts invalid places and ends with an error.

        Examples:
            >>> import turnout as t
            >>> cohort = t.Cohort.of([0, 3], 0.5, t.Population(4), selection="random")
            >>> cohort.places, int(cohort.size), cohort.weight.tolist()
            (2, 2, [0.5, 0.5])
        """
        ids = _shaped("ids", ids, None, np.integer).astype("int32")
        active = jnp.ones(ids.shape, bool) if active is None else _shaped("active", active, ids.shape, np.bool_)
        share = jnp.broadcast_to(population.share(ids), ids.shape)
        probability = _shaped("probability", probability, ids.shape, np.number, one=True).astype(share.dtype)
        probability = jnp.broadcast_to(probability, ids.shape)
        if expansion is not None:
            expansion = _shaped("expansion", expansion, ids.shape, np.number).astype(share.dtype)
        _refuse_known(ids, active, probability, expansion, population.count)
        if expansion is None:
            # Zero marks a probability that is not valid, for compiled draws, without NaN in the run.
            expansion = jnp.where((probability > 0) & (probability <= 1 + ROUNDING), 1 / probability, 0)
        available = population.count
        if population.available is not None:
            available = jnp.sum(population.available)
            if population.presence is not None:
                presence = jnp.asarray(population.presence)[ids].astype(share.dtype)
                probability, expansion = probability * presence, expansion / presence
        elif population.in_flight is not None:
            available = available - jnp.sum(population.in_flight < population.count)
        return cls(
            ids=ids,
            active=active,
            probability=probability,
            expansion=expansion,
            share=share,
            weight=share * expansion,
            selections=jnp.asarray(selections, "int32"),
            lost=jnp.asarray(lost, "int32"),
            available=jnp.asarray(available, "int32"),
            selection=selection,
            biased=biased,
        )

    @property
    def places(self) -> int:
        """The number of places m."""
        return self.ids.shape[0]

    @property
    def size(self) -> Int[Array, ""]:
        """The number of clients drawn into the m places."""
        return jnp.sum(self.active, dtype="int32")

    def invalid_places(self, count: int) -> Int[Array, ""]:
        """Return how many active places have an id outside 0 to `count` - 1, an id drawn twice, or no valid probability.

        Raises:
            UserError: Where that number is known and not zero.
        """
        invalid = _invalid_places(self, count)
        if not isinstance(invalid, Tracer) and invalid:
            raise UserError(f"{invalid} places of a cohort {INVALID}")
        return invalid


INVALID = "have a client that does not exist or is drawn twice, or a probability outside (0, 1]: correct the sampler's draw"


PAIRWISE, PAIRWISE_OF_ACCELERATORS = 32, 128
"""Places up to which every pair of ids is compared, which is faster there than sorting them: on a CPU, and on accelerators."""


@partial(jax.jit, static_argnames="count")
def _invalid_places(cohort: Cohort, count: int) -> Int[Array, ""]:
    places = jnp.arange(cohort.places, dtype="int32")
    positive = (cohort.probability > 0) & (cohort.expansion > 0) & jnp.isfinite(cohort.probability + cohort.expansion)
    wrong = (cohort.ids < 0) | (cohort.ids >= count) | ~positive
    # Empty places get ids that no client has, each another one.
    ids = jnp.where(cohort.active, cohort.ids, count + places)
    if cohort.places <= (PAIRWISE if on_cpu() else PAIRWISE_OF_ACCELERATORS):
        repeated = jnp.any((ids[:, None] == ids[None, :]) & (places[:, None] < places[None, :]), axis=0)
    else:
        ids = jnp.sort(ids)
        repeated = ids[1:] == ids[:-1]
    return jnp.sum(cohort.active & wrong, dtype="int32") + jnp.sum(repeated, dtype="int32")


def _shaped(name: str, value: Any, shape: tuple[int, ...] | None, kind: Any, one: bool = False) -> Array:
    """Return `value` as an array; `UserError` unless it holds a `kind` and has the `shape`, [m] for None, or () if `one`."""
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, kind):
        raise UserError(f"{name} of a cohort must be {_KINDS[kind]}, but they have dtype {array.dtype}: convert them")
    if array.ndim != 1 if shape is None else array.shape != shape and not (one and array.shape == ()):
        wanted = "[m]" if shape is None else f"{list(shape)}, that of ids"
        raise UserError(
            f"{name} of a cohort must have the shape {wanted}, but it is {list(array.shape)}: give one for each place"
        )
    return array


_KINDS = {np.integer: "whole numbers", np.bool_: "True or False", np.number: "numbers"}


def _refuse_known(ids, active, probability, expansion, count: int) -> None:
    """Raise `UserError` for the first active place whose id or probability is known and not valid."""
    if isinstance(active, Tracer):
        return
    active = np.asarray(active)
    if not isinstance(ids, Tracer):
        drawn = np.asarray(ids)[active]
        outside = drawn[(drawn < 0) | (drawn >= count)]
        if outside.size:
            raise UserError(f"a cohort has the client {outside[0]}, but clients are 0 to {count - 1}: draw ids below {count}")
        drawn, times = np.unique(drawn, return_counts=True)
        if np.any(times > 1):
            raise UserError(
                f"a cohort has the client {drawn[times > 1][0]} twice: draw without replacement, or give each client one "
                "place and the expansion (times drawn) / p_i"
            )
    for name, value in {"probability": probability, "expansion": expansion}.items():
        if value is None or isinstance(value, Tracer):
            continue
        numbers, most = np.asarray(value)[active], 1 + ROUNDING if name == "probability" and expansion is None else np.inf
        wrong = numbers[~((numbers > 0) & (numbers <= most) & np.isfinite(numbers))]
        if wrong.size:
            bounds = "in (0, 1]" if np.isfinite(most) else "positive and finite"
            raise UserError(f"the {name} of a drawn client must be {bounds}, but one is {wrong[0]:g}: correct the sampler's draw")
