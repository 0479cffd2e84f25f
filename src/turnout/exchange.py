"""How a server's algorithm talks to clients: `ask` down to them, `Done` back up.

An algorithm is a record of hyper-parameters whose `round(ask, server)` is ordinary code. `ask` is its only way to the
clients; an engine is whatever answers it. Read this page, one file of `algorithms/` and one of `engines/` to know the
whole.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, PyTree

from turnout.arithmetic import positive
from turnout.cohort import Cohort
from turnout.errors import UserError
from turnout.ledger import vector
from turnout.records import record
from turnout.stack import Stack, leave


class Done(NamedTuple):
    """What a local method returns: the reply, the client's new private state, and how many oracle queries it made.

    `missed` counts local problems that were not solved as well as wanted; any is an error of the run.
    """

    reply: Any
    state: Any = None
    queries: Any = 1
    missed: Any = 0


class Each(NamedTuple):
    """A part of a message that differs from client to client: `values` [m, ...] are stacked over the cohort's m places.

    The local method sees the plain value of its own place.
    """

    values: PyTree


def on_client(method: Callable) -> Callable:
    """Mark `method(self, client, message) -> Done` as one that clients run; only marked methods can be asked."""
    method.on_client = True
    return method


class Algorithm:
    """A federated algorithm: a record of hyper-parameters with a `round`."""

    def bind(self, problem) -> "Algorithm":
        """Return this algorithm fitted to `problem`, its samplers and solvers being so already."""
        return self

    def start(self, ask: "Ask", x: PyTree) -> PyTree:
        """Return the server's first state from the initial parameters `x`."""
        return x

    def round(self, ask: "Ask", server: PyTree) -> PyTree:
        """Return the server's state after one round."""
        raise UserError(f"{type(self).__name__} has no round(self, ask, server): write one")

    def output(self, server: PyTree) -> PyTree:
        """Return the parameters that the server would hand out."""
        return server

    def client_state(self, x: PyTree) -> PyTree:
        """Return one client's first private state; None where clients keep nothing."""
        return None


class Ask(ABC):
    """The server's handle on its clients; each engine implements it. `round` is the number of the round, 1 for the first."""

    round: Any

    @abstractmethod
    def draw(self, sampler, method: Callable | None = None, message: PyTree = None) -> Cohort:
        """Select a cohort, to be asked once or several times; `method` and `message` are what it will be asked first.

        Samplers that look ahead ask clients how long their reply to that would be, or for their loss there.
        """

    @abstractmethod
    def __call__(self, who, method: Callable, message: PyTree) -> "Replies":
        """Exchange once with `who` (a cohort, or a sampler to draw one): send `message`, run `method`, collect replies."""

    @abstractmethod
    def observe(self, replies: "Replies", feedback: Float[Array, " m"] | None = None) -> None:
        """Tell the sampler that drew the cohort of `replies` what was learnt about each of its m places; once for each cohort.

        The feedback is the Euclidean norm of each reply unless given: of its first part shaped like the parameters, if it has
        one. Samplers that learn from losses have asked for these instead.
        Further calls about the same cohort are ignored.
        """

    @abstractmethod
    def reject(self, rejected) -> None:
        """Count the last exchange as a rejected trial of a line search if `rejected`; it is paid for all the same."""

    def connected(self) -> Bool[Array, " n"] | None:
        """Return which clients are there now, as far as the engine can tell; None where it has no say in that."""
        return None

    @abstractmethod
    def key(self) -> Any:
        """Return the server's own random key for the next exchange."""

    @abstractmethod
    def loop(self, count, body: Callable, carry: PyTree, until: Callable | None = None) -> PyTree:
        """Apply `carry = body(carry)` `count` times, or until `until(carry)`; the loop to use around an exchange."""

    @abstractmethod
    def cond(self, predicate, then: Callable, otherwise: Callable, carry: PyTree) -> PyTree:
        """Return `then(carry)` or `otherwise(carry)`; the branch to use around an exchange."""


class Client(ABC):
    """What a local method sees: its own id, key, private state and oracle for f_i, and nothing else."""

    id: Any
    key: Any
    state: PyTree

    @abstractmethod
    def value(self, x: PyTree) -> Float[Array, ""]:
        """f_i(x)."""

    @abstractmethod
    def value_and_grad(self, x: PyTree) -> tuple[Float[Array, ""], PyTree]:
        """f_i(x) and its gradient."""

    @abstractmethod
    def hvp(self, x: PyTree, v: PyTree) -> PyTree:
        """The Hessian of f_i at x times v."""

    @abstractmethod
    def hessian(self, x: PyTree) -> Float[Array, "d d"]:
        """The Hessian of f_i at x, over the parameters as one vector."""

    @abstractmethod
    def batch(self, key, size: int) -> "Client":
        """This client with the mean over `size` of its rows, drawn uniformly with replacement, in the place of f_i."""

    @abstractmethod
    def passes(self, key, count, size: int, body: Callable[["Client", PyTree], PyTree], carry: PyTree) -> tuple[PyTree, Any]:
        """Apply `carry = body(batch, carry)` to every batch of `count` passes over the n_i rows; also return how many batches.

        Each pass is in a random order of its own and has ceil(n_i / size) batches of `size` rows, fewer in the last; `batch` is
        this client with the mean over these rows in the place of f_i.
        """

    def grad(self, x: PyTree) -> PyTree:
        """The gradient of f_i at x."""
        return self.value_and_grad(x)[1]

    def alone(self, f: Callable[[], PyTree]) -> PyTree:
        """Return f(), which loops until it is done: an engine that works on a cohort at once may do so for one after another."""
        return f()

    def choose(self, number, branches: list[Callable[[], PyTree]]) -> PyTree:
        """Return branches[number](): an engine that works on a cohort at once may compute all of them."""
        return jax.tree.map(lambda *found: jnp.stack(found)[number], *(branch() for branch in branches))

    @abstractmethod
    def loop(self, count, body: Callable, carry: PyTree) -> PyTree:
        """Apply `carry = body(carry)` `count` times, in whatever the oracle is written in."""

    @abstractmethod
    def cond(self, predicate, then: Callable, otherwise: Callable, carry: PyTree) -> PyTree:
        """Return `then(carry)` or `otherwise(carry)`.

        Let the message decide, as far as possible: where clients of one cohort differ, all of them may compute both.
        """


Weight = Literal["share", "weight"]
"""What a sum of replies weighs them by: lambda_i, or lambda_i / p_i."""


@record
class Replies:
    """The replies to one exchange, stacked over the cohort's m places; `answered` marks the places that hold one.

    For an engine's eyes only: `held` is what `values` are made of, arrays or a `Stack` for each, `everyone` is what all n clients
    would have replied, where metrics judge the sampler by it, and `losses` [m] came along for a sampler that learns from them.
    """

    held: PyTree
    cohort: Cohort
    answered: Bool[Array, " m"]
    everyone: PyTree = None
    losses: Float[Array, " m"] | None = None

    @property
    def values(self) -> PyTree:
        """All replies in memory, [m, ...]; whoever needs a sum only is better off with `mean`, `total` or `average`."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, Stack) else leaf, self.held)

    def each(self, of: Callable) -> PyTree:
        """Return of(r_i) of each reply r_i, stacked over the places."""
        leaves = jax.tree.leaves(self.held)
        if not any(isinstance(leaf, Stack) for leaf in leaves):
            return jax.vmap(of)(self.held)
        found = []
        for k in range(self.cohort.places):
            found.append(jax.block_until_ready(of(jax.tree.map(lambda leaf, k=k: leaf[k], self.held))))
            for leaf in leaves:
                leave(leaf[k])
        return jax.tree.map(lambda *parts: jnp.stack(parts), *found)

    def map(self, change: Callable) -> "Replies":
        """Return these replies with change(i, r_i) in the place of each r_i, i being the client's id."""
        values = jax.vmap(change)(self.cohort.ids, self.values)
        everyone = self.everyone
        if everyone is not None:
            ids = jnp.arange(jax.tree.leaves(everyone)[0].shape[0], dtype=self.cohort.ids.dtype)
            everyone = jax.vmap(change)(ids, everyone)
        return replace(self, held=values, everyone=everyone)

    def average(self) -> PyTree:
        """sum_{i answered} (lambda_i / p_i) r_i: unbiased for the weighted mean sum_i lambda_i r_i over all clients."""
        if self.cohort.selection == "delegate":
            raise UserError("a delegate's reply is no unbiased average over all clients: use mean()")
        if self.cohort.biased:
            raise UserError(
                "a biased sampler does not go with an unbiased average: take another sampler, or one that uses mean()"
            )
        return self.summed("weight")

    def total(self) -> PyTree:
        """sum lambda_i r_i over the clients that answered."""
        return self.summed("share")

    def mean(self) -> PyTree:
        """sum lambda_i r_i / sum lambda_i over the clients that answered; zero if none did."""
        # Weights that sum to one: of a single client the mean is its reply to the bit.
        return self._weighed(self.cohort.share / positive(self._heard()))

    def summed(self, by: Weight) -> PyTree:
        """The sum over the clients that answered of r_i times the number that the cohort holds for them as `by`."""
        return self._weighed(getattr(self.cohort, by))

    def _heard(self) -> Float[Array, ""]:
        """sum lambda_i over the clients that answered."""
        return jnp.sum(jnp.where(self.answered, self.cohort.share, 0))

    def _weighed(self, weight: Float[Array, " m"]) -> PyTree:
        weight = jnp.where(self.answered, weight, 0)

        def weigh(reply):
            if isinstance(reply, Stack) and not isinstance(weight, Tracer):
                return reply.sum(np.asarray(weight))
            reply = jnp.asarray(reply)
            # An empty place may hold anything, NaN included, so its reply is cleared and not only weighted by zero.
            held = self.answered.reshape((-1,) + (1,) * (reply.ndim - 1))
            return jnp.tensordot(weight.astype(reply.dtype), jnp.where(held, reply, 0), axes=1)

        return jax.tree.map(weigh, self.held)


class Sealed(Replies):
    """Replies that give out sums alone; `why` is what those are told who would look at each."""

    why: ClassVar[str]

    def mean(self):
        total = positive(self._heard())
        return jax.tree.map(lambda leaf: leaf / total.astype(leaf.dtype), self.summed("share"))

    @property
    def values(self):
        raise UserError(self.why)

    def each(self, of):
        raise UserError(self.why)


def if_any(replies: Replies, new: PyTree, old: PyTree) -> PyTree:
    """Return `new` if anybody answered, else `old`."""
    return jax.tree.map(lambda new, old: jnp.where(jnp.any(replies.answered), new, old), new, old)


def opened(message: PyTree) -> tuple[dict[int, PyTree], Callable[[dict], PyTree]]:
    """Return what the `Each` parts of `message` hold, and how to write the message of one place from its own share of that."""
    parts, structure = jax.tree.flatten(message, is_leaf=lambda part: isinstance(part, Each))
    own = {k: part.values for k, part in enumerate(parts) if isinstance(part, Each)}
    return own, lambda own: jax.tree.unflatten(structure, [own.get(k, part) for k, part in enumerate(parts)])


NORM, LOSS, BOTH = "norm()", "loss()", "with_loss()"
"""The last parts of the addresses of a local method's variants: they reply with the norm of its reply, with the client's loss at
the parameters that the message carries, or with both its reply and that loss."""


def address(algorithm: Algorithm, method: Callable) -> str:
    """Return where in `algorithm` a local method is: "train", or "solver.gradient" for one of its field `solver`."""
    owner = getattr(method, "__self__", algorithm)
    path = next((path for path, part in _parts(algorithm, ()) if part is owner), ())
    return ".".join([*path, method.__name__])


def local_method(algorithm: Algorithm, name: str, like: PyTree) -> Callable:
    """Return the marked local method, or its variant, at the address `name` of `algorithm`, for parameters shaped like `like`."""
    *path, last = name.split(".")
    if last in _VARIANTS:
        return _VARIANTS[last](local_method(algorithm, ".".join(path), like), like)
    part = dict(_parts(algorithm, ())).get(tuple(path))
    method = getattr(part, last, None)
    if method is None or not getattr(method, "on_client", False):
        raise UserError(f"{type(algorithm).__name__}.{name} is not a local method: mark it with @on_client")
    return method


def norm(tree: PyTree) -> Float[Array, ""]:
    """Return the Euclidean norm of all entries of `tree`."""
    leaves = jax.tree.leaves(tree)
    # Scaled, so that squares neither vanish nor overflow.
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in leaves]))
    scale = positive(largest)
    return scale * jnp.sqrt(sum(jnp.sum((leaf / scale) ** 2) for leaf in leaves))


def _norm_of(method: Callable, like: PyTree) -> Callable:
    """Return the local method that replies with the norm of what `method` replies with, and keeps the client's state."""

    def ask_norm(client: Client, message: PyTree) -> Done:
        done = method(client, message)
        return Done(norm(vector(done.reply, like)), queries=done.queries, missed=done.missed)

    return ask_norm


def _loss_at(method: Callable, like: PyTree) -> Callable:
    """Return the local method that replies with f_i at the parameters that a message to `method` carries."""
    return lambda client, message: Done(client.value(vector(message, like)))


def _with_loss(method: Callable, like: PyTree) -> Callable:
    """Return `method` with f_i at the parameters that its message carries as a second part of the reply."""

    def ask_both(client: Client, message: PyTree) -> Done:
        done = method(client, message)
        return done._replace(reply=(done.reply, client.value(vector(message, like))), queries=done.queries + 1)

    return ask_both


_VARIANTS = {NORM: _norm_of, LOSS: _loss_at, BOTH: _with_loss}


def _parts(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the record `node` and all records that it holds, each with the names of the fields that lead to it."""
    yield path, node
    for field in fields(node) if is_dataclass(node) else ():
        part = getattr(node, field.name)
        if is_dataclass(part):
            yield from _parts(part, (*path, field.name))
