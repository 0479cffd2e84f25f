"""Draws among very many clients, whose scores an index outside of the program holds."""

from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from turnout.core.cohort import Cohort
from turnout.core.host_calls import call, host, registered
from turnout.core.records import Count, Positive, record, static
from turnout.problems.base import Population
from turnout.samplers.base import Sampler
from turnout.samplers.in_double import in_double, with_floats
from turnout.samplers.independent import Independent
from turnout.samplers.probabilities import Probability, Uniform
from turnout.samplers.probabilities.by_client import ByClient
from turnout.samplers.replacement import WithReplacement

if TYPE_CHECKING:
    from turnout.samplers.score_index.index import ScoreIndex

FROM = 10**5
"""Clients from which on a run whose clients are not in memory draws from an index."""


Drawn = Literal["independent", "replacement"]


class IndexState(NamedTuple):
    """The version of the index, and the size G of feedback, 0 while unknown."""

    version: Int[Array, ""]
    unit: Float[Array, ""]


@record
class Indexed(Sampler):
    """Draws of `Independent` or `WithReplacement` by a rule, of which an index holds the scores: O(K) operations per round.

    The probabilities, and what feedback changes, are those of the rule; the random numbers are others than in a draw over arrays
    of all clients. It is made by `indexed`.

    Args:
        probability: The rule.
        size: K.
        places: Places of a cohort.
        drawn: "independent" or "replacement".
        clients: n.
        index: The number of the `ScoreIndex`.
    """

    probability: Probability
    size: Positive
    places: int = static()
    drawn: Drawn = static()
    clients: Count = static()
    index: Any = field(default=None, repr=False)

    @property
    def replacement(self) -> str:
        return WithReplacement.replacement if self.drawn == "replacement" else Independent.replacement

    @property
    def weights(self) -> str:
        return WithReplacement.weights if self.drawn == "replacement" else Independent.weights

    @property
    def learns_from_feedback(self) -> bool:
        return self.probability.learns_from_feedback

    draws_ahead = True

    def start(self, population):
        unit = self.probability.first_unit() if isinstance(self.probability, ByClient) else 0.0
        return IndexState(jnp.zeros((), "int32"), jnp.asarray(unit, jnp.result_type(float)))

    @in_double
    def draw(self, state, key, population):
        shapes = [jax.ShapeDtypeStruct((self.places,), kind) for kind in ("int32", "float64", "float64")]
        drawn = jax.ShapeDtypeStruct((), "int32")
        words = jax.random.key_data(key)
        ids, p, times, count = call(_draw, [*shapes, drawn], self.index, state.version, words)
        return Cohort.of(
            ids,
            p,
            population,
            selection="arbitrary",
            active=jnp.arange(self.places, dtype="int32") < count,
            expansion=times / p,
            lost=jnp.maximum(count - self.places, 0),
        )

    def observe(self, state, cohort, feedback):
        if not self.learns_from_feedback:
            return state
        kind = jnp.result_type(float)
        with jax.enable_x64(True):
            rule, cohort, feedback, unit = with_floats((self.probability, cohort, feedback, state.unit), "float64")
            size, count = with_floats(self.size, "float64"), self.clients
            (scores,) = call(_scores, [jax.ShapeDtypeStruct(cohort.ids.shape, "float64")], self.index, state.version, cohort.ids)
            feedback = cohort.share * feedback
            unit = rule.unit(unit, cohort, feedback)
            own = jnp.where(jnp.signbit(scores), scores, rule.remembered(scores, size, count))
            new = rule.score(rule.learned(own, cohort, feedback, unit), size, count)
            ids = jnp.where(cohort.active, cohort.ids, -1)
            (version,) = call(_learn, [jax.ShapeDtypeStruct((), "int32")], self.index, state.version, ids, new, unit)
            return IndexState(version, unit.astype(kind))

    def expected_draws(self, state, population):
        kind = jnp.result_type(float)
        with jax.enable_x64(True):
            shape = jax.ShapeDtypeStruct((population.count,), "float64")
            (p,) = call(_probabilities, [shape], self.index, state.version)
            return (p * with_floats(self.size, "float64") if self.drawn == "replacement" else p).astype(kind)

    def saved(self, state):
        return host(self.index).arrays() | {"state": state}

    def restored(self, saved):
        host(self.index).restore(saved)
        return saved["state"]


def indexed(sampler: Sampler, population: Population, held: list) -> Sampler:
    """Return a sampler with the same probabilities that draws from an index; the sampler itself where none is needed or possible.

    `Nice`, and `Independent` with equal probabilities, draw in O(K) by themselves.

    Args:
        sampler: A sampler that is bound to the population and tuned to a run.
        population: The clients.
        held: Gets the index, and has to live as long as the run.
    """
    if not isinstance(sampler, Independent | WithReplacement) or not isinstance(sampler.probability, Probability):
        return sampler
    rule, size, draws_alone = sampler.probability, sampler.size, isinstance(sampler, Independent)
    if size is None or not can_be_indexed(rule) or (draws_alone and isinstance(rule, Uniform)):
        return sampler
    drawn: Drawn = "independent" if draws_alone else "replacement"
    places = sampler.capacity if isinstance(sampler, Independent) else sampler.size
    held.append(index_of(rule, size, population, drawn))
    return Indexed(rule, size, places or population.count, drawn, population.count, registered(held[-1]))


def can_be_indexed(rule: Probability) -> bool:
    """Return whether the score of a client changes only by its own feedback, or not at all."""
    fixed = not (rule.learns_from_feedback or rule.consults_before_draw) and type(rule).refresh is Probability.refresh
    return isinstance(rule, ByClient) or fixed


def index_of(rule: Probability, size, population: Population, drawn: Drawn) -> "ScoreIndex":
    """Return the index of the first scores of a rule.

    Args:
        rule: The rule, bound to the population.
        size: K.
        population: The clients.
        drawn: How clients are drawn.
    """
    # Numba is slow to import.
    from turnout.samplers.score_index.index import ScoreIndex

    with jax.enable_x64(True):
        if isinstance(rule, ByClient):
            own = jnp.asarray(rule.first(population), float)
            scores = np.asarray(jnp.where(jnp.signbit(own), own, rule.score(own, size, population.count)))
            unit = float(rule.first_unit())
        else:
            scores, unit = np.asarray(rule.scores(rule.start(population), size, population), float), 0.0
        theta = float(rule.theta(size, population))
    how = {"mixes_before_cap": rule.mixes_before_cap, "replacement": drawn == "replacement"}
    return ScoreIndex(scores, size, theta, unit=unit, **how)


def _draw(outputs, number, version, words):
    index, (ids, p, times, count) = _at(number, version), outputs
    generator = np.random.Generator(np.random.Philox(key=words.astype(np.uint64)))
    drawn, probability = index.draw(generator)
    repeats = np.ones(drawn.size, np.int32)
    if index.replacement:
        drawn, first, repeats = np.unique(drawn, return_index=True, return_counts=True)
        probability = index.size * probability[first]
    k = min(drawn.size, ids.size)
    for output, values, empty in ((ids, drawn, 0), (p, probability, 1), (times, repeats, 1)):
        output[:k], output[k:] = values[:k], empty
    count[...] = drawn.size


def _scores(outputs, number, version, ids):
    outputs[0][...] = _at(number, version).scores(ids)


def _learn(outputs, number, version, ids, scores, unit):
    index, heard = _at(number, version), ids >= 0
    if heard.any():
        index.set(ids[heard], scores[heard], float(unit))
    index.version += 1
    outputs[0][...] = index.version


def _probabilities(outputs, number, version):
    index = _at(number, version)
    outputs[0][...] = index.probabilities(np.arange(index.clients))


def _at(number, version) -> "ScoreIndex":
    index = host(number)
    if index.version != int(version):
        raise RuntimeError(f"the index of scores has version {index.version}, and the program wants {int(version)}")
    return index
