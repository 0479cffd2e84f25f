"""The sampler protocol: how the clients of a round are drawn. Read this file to write a sampler of your own.

A sampler is a frozen record (`turnout.record`): its fields are hyper-parameters. What changes during a run is its state, a
pytree of arrays that the engine keeps on the server and passes to the methods below. All methods are pure functions.

Before a run the engine calls

1. `fit(problem)`, by default `bind(population)`: check that the sampler fits, and return it with all it has to look up;
2. `for_rounds(rounds)`: return the sampler tuned to the number of rounds;
3. `start(population)`: return the first state.

In each round it calls

1. `refresh(state, ask, x)`: update the state at the current parameters x, with charged exchanges if needed;
2. `consulted_cohort`, `observe_consulted` and `calibrated`, if `consults_before_draw`: ask some clients for a number before the
   draw, and then what else the draw needs;
3. `draw(state, key, population)`: return the `Cohort`, drawn with the random key;
4. `advance(state, key)`: return the state after that draw;
5. `observe(state, cohort, feedback)`, if `learns_from_feedback`: update the state by what the clients replied.

Only `draw` is required. It must return clients with their true inclusion probabilities, since `Replies.average()` divides by
them, and it must have fixed shapes: a random number of clients takes a fixed number of places, of which some are not `active`.
The following sampler draws one client with probability p_i = (1 - theta) |r_i| / sum_j |r_j| + theta / n, where |r_i| is the
norm of the client's last reply, 1 before the first:

Examples:
    >>> import jax, jax.numpy as jnp, turnout as t
    >>> @t.record
    ... class ByLastNorm(t.Sampler):
    ...     theta: float = 0.2
    ...     learns_from_feedback = True
    ...
    ...     def start(self, population):
    ...         return jnp.ones(population.count)
    ...
    ...     def draw(self, state, key, population):
    ...         p = (1 - self.theta) * state / jnp.sum(state) + self.theta / population.count
    ...         ids = jax.random.choice(key, population.count, (1,), p=p)
    ...         return t.Cohort.of(ids, p[ids], population, selection="arbitrary")
    ...
    ...     def observe(self, state, cohort, feedback):
    ...         ids = jnp.where(cohort.active, cohort.ids, state.size)  # a lost reply writes nowhere
    ...         return state.at[ids].set(feedback, mode="drop")
    >>> problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
    >>> trace = t.run(t.MbGd(ByLastNorm(), lr=0.01), problem, rounds=10)
    >>> trace.ledger.totals()["draws_arbitrary"]
    10
"""

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.problems.base import Population, Problem


class Sampler:
    """Base class of samplers; the module `turnout.samplers.base` describes the protocol and has a complete example.

    Examples:
        >>> import jax, turnout as t
        >>> @t.record
        ... class OneOf(t.Sampler):
        ...     def draw(self, state, key, population):
        ...         ids = jax.random.randint(key, (1,), 0, population.count)
        ...         return t.Cohort.of(ids, 1 / population.count, population, selection="random")
        >>> problem = t.Quadratic.random(clients=6, dimension=3, seed=0)
        >>> t.run(t.MbGd(OneOf(), lr=0.01), problem, rounds=10).ledger.totals()["contacts"]
        10
    """

    example = "t.Nice(10)"

    replacement: ClassVar[str] = "without"
    """Shown with results: whether clients are drawn "with" or "without" replacement."""

    weights: ClassVar[str] = "lambda_i / p_i"
    """Shown with results: the weight of client i's reply in an average."""

    learns_from_feedback: ClassVar[bool] = False
    """Whether feedback changes later draws: the engine calls `observe`."""

    feedback_kind: ClassVar[str] = "norm"
    """What clients report before a draw or as feedback: the "norm" of the reply, or the "loss" at the parameters sent."""

    consults_before_draw: ClassVar[bool] = False
    """Whether clients are asked before the draw: the engine calls `consulted_cohort` and `observe_consulted`."""

    is_charged: ClassVar[bool] = True
    """Whether the ledger counts what clients are asked before the draw; False makes the sampler an oracle."""

    needs_clock: ClassVar[bool] = False
    """Whether draws depend on the seconds on the clock, so that a run needs devices."""

    supports_availability: ClassVar[bool] = False
    """Whether `draw` leaves out clients that are not available, so that `Available` accepts the sampler."""

    supports_in_flight: ClassVar[bool] = False
    """Whether `draw` leaves out the clients in `Population.in_flight` by itself, in less time than n operations."""

    draws_ahead: ClassVar[bool] = False
    """Whether `draw` takes less than n operations, so that the next cohort can be drawn ahead to have its clients' rows read."""

    def fit(self, problem: Problem) -> "Sampler":
        """Return this sampler fitted to `problem`. A sampler that needs the population only overrides `bind` instead.

        Raises:
            UserError: If the sampler does not fit.
        """
        return self.bind(problem.population)

    def bind(self, population: Population) -> "Sampler":
        """Return this sampler fitted to `population`.

        Raises:
            UserError: If the sampler does not fit, or needs a problem.
        """
        return self

    def for_rounds(self, rounds: int) -> "Sampler":
        """Return this sampler tuned to a run of `rounds` rounds."""
        return self

    def warning(self, population: Population) -> str | None:
        """Return what a user should know before a run, in one sentence; None for nothing.

        Args:
            population: The clients, their weights, and who is available.
        """
        return None

    def start(self, population: Population) -> Any:
        """Return the first state, a pytree of arrays; None for a sampler without state."""
        return None

    def refresh(self, state: Any, ask: Any, x: Any) -> Any:
        """Return the state at the start of a round with parameters `x`. Exchanges through `ask` are charged.

        Args:
            state: State of the sampler.
            ask: Access to the clients.
            x: Parameters of the server.
        """
        return state

    def consulted_cohort(self, state: Any, key, population: Population) -> Cohort:
        """Return the cohort to ask before the draw, by default all available clients.

        Args:
            state: State of the sampler.
            key: Random key.
            population: The clients, their weights, and who is available.
        """
        return everyone_available(population)

    def observe_consulted(
        self, state: Any, values: Float[Array, " n"], answered: Bool[Array, " n"], population: Population
    ) -> Any:
        """Return the state after the answers before the draw.

        Args:
            state: The state before.
            values: The answer of each client [n], a norm or a loss by `feedback_kind`; 0 for clients that did not answer.
            answered: Which clients answered [n].
            population: All clients.
        """
        return state

    def calibrated(self, state: Any, ask: Any, population: Population, size: Any = None) -> Any:
        """Return the state after further exchanges before the draw, which are charged, as the consultation was.

        Args:
            state: The state after the answers.
            ask: Access to the clients.
            population: All clients.
            size: The K of this draw, where a sampler around this one sets it.
        """
        return state

    def draw(self, state: Any, key, population: Population) -> Cohort:
        """Draw a cohort; build it by `Cohort.of`.

        Args:
            state: The state.
            key: A JAX random key, a new one for each draw.
            population: All clients, their weights, and who is available.
        """
        raise UserError(f"{type(self).__name__} has no draw(self, state, key, population): write one")

    def advance(self, state: Any, key) -> Any:
        """Return the state after the draw with `key`.

        Args:
            state: State of the sampler.
            key: Random key.
        """
        return state

    def observe(self, state: Any, cohort: Cohort, feedback: Float[Array, " m"]) -> Any:
        """Return the state after the replies.

        Args:
            state: The state before.
            cohort: The cohort drawn, `active` only where a client replied.
            feedback: For each of the m places what `feedback_kind` says: |r_i| >= 0, or the client's loss.
        """
        return state

    def saved(self, state: Any) -> Any:
        """Return what a checkpoint keeps of a state, by default the state itself.

        Args:
            state: State of the sampler.
        """
        return state

    def restored(self, saved: Any) -> Any:
        """Return the state that `saved` keeps.

        Args:
            saved: What `saved` returned.
        """
        return saved

    def with_availability(self, state: Any, population: Population) -> Population:
        """Return the population with the clients that are available in this state.

        Args:
            state: State of the sampler.
            population: The clients, their weights, and who is available.
        """
        return population

    def expected_draws(self, state: Any, population: Population) -> Float[Array, " n"]:
        """Return how often each client is drawn in expectation [n]: p_i, or K q_i with replacement. Metrics need it.

        Args:
            state: State of the sampler.
            population: The clients, their weights, and who is available.
        """
        raise UserError(f"{type(self).__name__} draws by no probabilities that metrics could judge: take another sampler")

    def variance(self, state: Any, population: Population, vectors: Float[Array, "n d"]) -> Float[Array, ""]:
        """Return E|sum_{i in S} expansion_i v_i - sum_i v_i|^2 for `vectors` v_i, given who is available. Metrics need it.

        Args:
            state: State of the sampler.
            population: The clients, their weights, and who is available.
            vectors: v_i [n, d].
        """
        raise UserError(f"{type(self).__name__} has no formula for the variance: take another sampler, or leave that metric out")


def places_of_cohorts(sampler: Sampler, population: Population) -> int:
    """Return the number of places of the cohorts of a bound sampler.

    Args:
        sampler: The sampler.
        population: The clients.
    """
    return jax.eval_shape(lambda key: sampler.draw(sampler.start(population), key, population), jax.random.key(0)).places


def everyone_available(population: Population) -> Cohort:
    """Return the cohort of all available clients."""
    ids = jnp.arange(population.count, dtype="int32")
    return Cohort.of(ids, 1.0, population, selection="arbitrary", active=population.available)


def samplers_in(node: Any) -> list[Sampler]:
    """Return all samplers in the record `node`, in the order of the fields, each before the samplers that it contains."""
    if not is_dataclass(node):
        return [node] if isinstance(node, Sampler) else []
    nested = [sampler for field in fields(node) for sampler in samplers_in(getattr(node, field.name))]
    return [node, *nested] if isinstance(node, Sampler) else nested


def warnings_of(algorithm: Any, population: Population) -> list[str]:
    """Return the warnings of all samplers in `algorithm`, bound and tuned to a run, each once.

    Args:
        algorithm: An algorithm that is bound to a problem.
        population: The clients of the problem.
    """
    found = (sampler.warning(population) for sampler in samplers_in(algorithm))
    return [*dict.fromkeys(warning for warning in found if warning is not None)]


def check_size(size: float, population: Population, sampler: str) -> None:
    """Raise `UserError` if a cohort of `size` clients does not fit in the population.

    Args:
        size: Number of clients in a cohort.
        population: The clients, their weights, and who is available.
        sampler: Name of the sampler, for the message.
    """
    if size > population.count:
        raise UserError(f"sampler {sampler!r} wants {size:g} clients, but there are {population.count}: lower size")


def as_numbers(values: Any, sampler: str, what: str) -> np.ndarray:
    """Return `values` as an array of numbers, or raise `UserError`.

    Args:
        values: What the user gave.
        sampler: Name of the sampler, for the message.
        what: Name of the field, for the message.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.array(None)
    if not np.issubdtype(array.dtype, np.number):
        raise UserError(f"sampler {sampler!r} needs numbers as {what}")
    return array


def as_probabilities(values: Any, count: int, sampler: str, scalar: bool = False) -> np.ndarray:
    """Return `values` as [count] numbers in (0, 1], or with `scalar` also as one number for all; else raise `UserError`.

    Args:
        values: What the user gave.
        count: Number of clients.
        sampler: Name of the sampler, for the message.
        scalar: Whether one number for all clients is allowed.
    """
    p = as_numbers(values, sampler, "probability").astype(float)
    if p.shape != (count,) and not (scalar and p.shape == ()):
        wanted = f"1 or {count} probabilities" if scalar else f"{count} probabilities, one for each client"
        raise UserError(f"sampler {sampler!r} needs {wanted}, but got {p.size}")
    wrong = ~((p > 0) & (p <= 1))
    if np.any(wrong):
        raise UserError(f"sampler {sampler!r} needs probabilities in (0, 1], but one is {p[wrong][0]:g}")
    return p


def as_distribution(values: Any, count: int, sampler: str, of: str) -> np.ndarray:
    """Return `values` as probabilities [count] of each `of` that sum to 1, equal ones for None; else raise `UserError`.

    Args:
        values: What the user gave.
        count: Number of entries.
        sampler: Name of the sampler, for the message.
        of: What an entry belongs to, for the message.
    """
    p = np.full(count, 1 / count) if values is None else as_numbers(values, sampler, "probability").astype(float)
    if p.shape != (count,):
        raise UserError(f"sampler {sampler!r} needs {count} probabilities, one for each {of}, but got {p.size}")
    if not np.all(p > 0):
        k = int(np.argmin(p > 0))
        raise UserError(f"sampler {sampler!r} needs probabilities above 0, but that of {of} {k} is {p[k]:g}")
    if not abs(p.sum() - 1) <= SUM_TOLERANCE:
        raise UserError(f"sampler {sampler!r} needs probabilities that sum to 1, but they sum to {p.sum():.10g}")
    return p / p.sum()


SUM_TOLERANCE = 1e-6
"""Accepted error of a sum of probabilities, which may be written as rounded decimals."""
