"""TAMUNA: local steps, partial participation, and clients that each send a part of the numbers."""

from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import annotated_types as at
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.messages import Each
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.tree import add, zeros
from turnout.samplers import Full, Nice, Sampler
from turnout.theory.compression import tamuna_steps


class TamunaState(NamedTuple):
    """x, and for each client what x became at the places that it sent last, `owed` [n, k]."""

    x: PyTree
    owed: Float[Array, "n k"]


class Part(NamedTuple):
    """A client's h_i before the step that its next message completes, and what it sent last: `values` at `places` [k]."""

    h: PyTree
    places: Int[Array, " k"]
    values: Float[Array, " k"]


@record
class Tamuna(Algorithm):
    """TAMUNA (Condat et al., 2023); with full participation CompressedScaffnew (Condat et al., 2022).

    z_i <- z_i - lr (grad f_i(z_i) - h_i), a random number of times from x, for i in S. Then of each number of x, s random clients
    of S send theirs: x_k <- mean of z_ik over these, and h_ik <- h_ik + (p chi / lr) (x_k - z_ik) for them; h_i = 0 at first.

    The number of steps is geometric with mean 1 / p, and chi = n (s - 1) / (s (n - 1)). A client sends k = ceil(s d / m) of d
    numbers, m being the size of S. It makes the step of h_i when it takes part again, for which k more numbers come along. The
    mean has the weights lambda_i. A lost reply is left out of the mean, and the client keeps its h_i.

    For mu-strongly convex, L-smooth f_i, equal lambda_i and lr < 2 / L, with r = (s - 1) / (n - 1),
    Psi = n |x - x*|^2 + lr^2 / (p^2 chi r) sum_i |h_i - grad f_i(x*)|^2 falls by
    max {(1 - lr mu)^2, (1 - lr L)^2, 1 - p^2 chi r} in expectation in a local step.

    Args:
        sampler: Who takes part in each round: `Full` or `Nice`.
        copies: s, how many clients send each number, 2 to m.
        lr: Step size of the clients, > 0; None means 2 / (L + mu) (`theory.compression.tamuna_steps`).
        probability: p, in (0, 1]; None means that for which the rate's terms are equal, at most 1.
        clients: The number of clients, which `bind` sets.

    Raises:
        UserError: Where cohorts have no fixed size or fewer than s clients, or mu_i > 0 and L_i are needed and not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.Tamuna(t.Nice(4), copies=2), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]
        480
    """

    sampler: Sampler
    copies: Annotated[int, at.Ge(2)] = static()
    lr: Positive | None = None
    probability: Fraction | None = None
    clients: Count | None = static(default=None, repr=False, kw_only=True)

    def bind(self, problem):
        if not isinstance(self.sampler, Full | Nice):
            raise UserError(f"Tamuna needs cohorts of one size: take full or nice in the place of {type(self.sampler).__name__}")
        size = problem.clients if isinstance(self.sampler, Full) else self.sampler.size
        if self.copies > size:
            raise UserError(f"Tamuna.copies is {self.copies}, but a cohort has {size} clients: lower copies")
        lr, p = self.lr, self.probability
        if lr is None or p is None:
            lr, p = tamuna_steps(problem, self.copies, lr, p)
        return replace(self, lr=lr, probability=p, clients=problem.clients)

    def start(self, ask, x):
        part = self.client_state(x)
        return TamunaState(x, jnp.broadcast_to(part.values, (self.clients, *part.values.shape)))

    def client_state(self, x):
        flat = ravel_pytree(x)[0]
        places = jnp.full(-(-self.copies * flat.size // self._size), flat.size, "int32")
        return Part(zeros(x), places, jnp.zeros(places.shape, flat.dtype))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        key, (flat, shaped) = ask.key(), ravel_pytree(server.x)
        steps = jax.random.geometric(key, self.probability, dtype="int32")
        slots = jax.random.permutation(jax.random.fold_in(key, 1), jnp.arange(self._size, dtype="int32"))
        cohort = ask.draw(self.sampler)
        replies = ask(cohort, self.train, (server.x, steps, Each((slots, server.owed[cohort.ids]))))
        ask.observe(replies)
        answered, places = replies.answered[:, None], jax.vmap(lambda slot: self._places(slot, flat.size))(slots)
        share = jnp.broadcast_to(jnp.where(answered, cohort.share[:, None], 0), places.shape).astype(flat.dtype)
        total = jnp.zeros_like(flat).at[places].add(share * jnp.where(answered, replies.values, 0), mode="drop")
        weight = jnp.zeros_like(flat).at[places].add(share, mode="drop")
        flat = jnp.where(weight > 0, total / jnp.where(weight > 0, weight, 1), flat)
        ids = jnp.where(replies.answered, cohort.ids, self.clients)
        return TamunaState(shaped(flat), server.owed.at[ids].set(_at(flat, places), mode="drop"))

    @on_client
    def train(self, client, message):
        """z_i at the client's places, after `steps` local steps from x."""
        x, steps, (slot, owed) = message
        h, places, values = client.state
        flat, shaped = ravel_pytree(x)
        rate = jnp.asarray(self._p * self._chi / self._lr, flat.dtype)
        h = add(h, shaped(jnp.zeros_like(flat).at[places].add(rate * (owed - values), mode="drop")))
        z = client.loop(steps, lambda z: add(z, add(client.grad(z), h, -1.0), -self._lr), x)
        places = self._places(slot, flat.size)
        values = _at(ravel_pytree(z)[0], places)
        return Done(values, Part(h, places, values), steps)

    @property
    def _lr(self) -> Any:
        """The step size, which `bind` sets where it is not given."""
        return self.lr

    @property
    def _p(self) -> Any:
        """The probability, which `bind` sets where it is not given."""
        return self.probability

    @property
    def _n(self) -> Any:
        """The number of clients, which `bind` sets."""
        return self.clients

    @property
    def _size(self) -> Any:
        """The size m of a cohort."""
        return self.sampler.size if isinstance(self.sampler, Nice) else self._n

    @property
    def _chi(self) -> float:
        """The largest chi that the theorem allows."""
        return self._n * (self.copies - 1) / (self.copies * (self._n - 1))

    def _places(self, slot, size: int) -> Int[Array, " k"]:
        """Return the places of the client in a slot 0 to m - 1; `size` where it sends one fewer.

        The s copies of all numbers, one after the other, are dealt out to the m slots in turn, so none gets two of a number.
        """
        copies = slot + self._size * jnp.arange(-(-self.copies * size // self._size), dtype="int32")
        return jnp.where(copies < self.copies * size, copies // self.copies, size).astype("int32")


def _at(flat: Float[Array, " d"], places: Int[Array, "... k"]) -> Float[Array, "... k"]:
    """Return the numbers at the places, 0 beyond the last."""
    return flat.at[places].get(mode="fill", fill_value=0)
