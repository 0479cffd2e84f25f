"""GradSkip: Scaffnew whose clients with benign functions stop early; GradSkip+: any compressors in the place of its coins."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, UInt

from turnout.algorithms.scaffnew import PointAndVariate, Scaffnew
from turnout.client_solvers.base import fit_each, of_client
from turnout.codecs.base import Codec, Identity
from turnout.codecs.trees import compress, parts_of, variance_of
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.messages import Each
from turnout.core.records import Count, Fraction, Positive, Share, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.samplers import Sampler
from turnout.samplers.full_pass import full_pass
from turnout.theory.compression import gradskip_plus_step


@record
class GradSkip(Scaffnew):
    """GradSkip: Scaffnew with fewer steps at clients with benign f_i (Maranjyan, Safaryan and Richtarik, 2022, Algorithm 1).

    z_i <- z_i - lr (grad f_i(z_i) - h_i), as in `Scaffnew`, while a coin that shows 1 with probability q_i = `going` does so.
    Else g_i = grad f_i(z_i) takes the place of h_i, and z_i stays until the communication, g_i = h_i at clients that did not
    stop. Then x <- sum_i lambda_i (z_i - (lr / p) (g_i - h_i)) and h_i <- g_i + (p / lr) (x - z_i), z_i <- x; h_i = 0 at first.

    The paper sends z_i - (lr / p) g_i, which has the same mean since sum_i lambda_i h_i = 0, and keeps that sum at 0 where no
    reply is lost; here it stays 0 in any case. A client makes 1 / (1 - q_i (1 - p)) queries a round on average, in the place of
    1 / p. With q_i = 1 it is `Scaffnew`.

    For mu-strongly convex, L_i-smooth f_i, equal lambda_i and lr <= min_i p^2 / (L_i (1 - q_i (1 - p^2))),
    Psi = sum_i |z_i - x*|^2 + (lr / p)^2 |h_i - h_i*|^2, h_i* = grad f_i(x*), falls in expectation by
    1 - min(lr mu, 1 - max_i q_i (1 - p^2)) in a local step. With kappa_i = L_i / mu, p = kappa^(-1/2) and
    q_i = (1 - 1 / kappa_i) / (1 - 1 / kappa) for the largest kappa, lr may be 1 / L, so that the rounds are as few as those of
    Scaffnew, and the queries of client i at most min(kappa_i, 1 / p) a round.

    Args:
        sampler: How many clients are asked at a time; a round is charged as ceil(n / m) arbitrary selections.
        lr: Step size of the clients, > 0.
        probability: p, the probability of a communication after a local step, in (0, 1].
        going: q_i, one number in [0, 1] or a list with one for each client; None means those above.
        clients: The number of clients, which `bind` sets.

    Raises:
        UserError: Where mu > 0 and L_i are needed and not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.GradSkip(t.Nice(4), lr=0.05, probability=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"], trace.ledger.totals()["draws_arbitrary"]
        (5, 10)
    """

    going: Share | list[Share] | Float[np.ndarray, " n"] | None = None

    def bind(self, problem):
        given = replace(self, going=_best(problem)) if self.going is None else self
        return Scaffnew.bind(fit_each(given, problem, "going"), problem)

    @on_client
    def skip(self, client, message):
        """z_i - (lr / p) (g_i - h_i) after at most `steps` local steps from x, the mean owed to the client."""
        x, steps = message
        z, h = client.state
        rate = jnp.asarray(self.probability / self.lr)
        h = jax.tree.map(lambda h, z, x: h - rate * (z - x), h, z, x)
        last = _last_step(client.key, of_client(self.going, client.id), steps + 1)
        stops = last <= steps
        z = client.loop(last - 1, lambda z: add(z, add(client.grad(z), h, -1.0), -self.lr), x)
        # No or one query; a branch would copy the rows of all clients where these differ in size.
        g = client.loop(stops.astype("int32"), lambda _: client.grad(z), h)
        reply = jax.tree.map(lambda z, g, h: z - (g - h) / rate, z, g, h)
        return Done(reply, PointAndVariate(z, g), jnp.minimum(last, steps))


class PlusState(NamedTuple):
    """x, and the payload `owed` to each client [n, ...]: that of the last exchange that it answered."""

    x: PyTree
    owed: PyTree


class BeforeMean(NamedTuple):
    """A client's x_i and h_i before the step that its next message completes, and the key of the exchange that began it."""

    x: PyTree
    h: PyTree
    key: UInt[Array, " 2"]


@record
class GradSkipPlus(Algorithm):
    """GradSkip+ on clients (Maranjyan, Safaryan and Richtarik, 2022, Algorithm 2): GradSkip with any compressors.

    c_i = C_own(grad f_i(x_i) - h_i) / (1 + W), h_i <- grad f_i(x_i) - c_i, x_i <- x_i - lr c_i, a geometric number of times with
    mean 1 / p. Then, with s = p / (1 + omega), the clients send C(x_i - (lr / s) h_i), with the same random numbers in C, whose
    mean is C(v): d_i = C(x_i - v) / (1 + omega), x_i <- x_i - d_i, h_i <- h_i - (s / lr) d_i; h_i = 0 at first.

    C is unbiased with variance omega, and linear, such as `rand-k` with `common` places, so that the mean of payloads is the
    payload of the mean, both ways. C_own is unbiased with variance W. The paper's C_omega is C / p with probability p, else 0,
    and its C_Omega_i are C_own. With two codecs `identity` it is `Scaffnew`; coins in the place of C_own make `GradSkip`. The
    output has of each number the mean that came last. All clients take part; where replies are lost, which are left out of the
    mean, x* is no fixed point.

    For mu-strongly convex, L_i-smooth f_i, equal lambda_i and lr <= 1 / (L_i (1 + (1 / s^2 - 1) W / (1 + W))) for all i,
    Psi = sum_i |x_i - x*|^2 + (lr / s)^2 |h_i - grad f_i(x*)|^2 falls in expectation by
    1 - min {lr mu, 1 - (1 - s^2) / (1 + W)} in a local step (Theorem 4.5).

    Args:
        sampler: How many clients are asked at a time; a round is charged as ceil(n / m) arbitrary selections.
        codec: C, linear.
        own_codec: C_own.
        lr: Step size, > 0; None means the largest of the theorem (`theory.compression.gradskip_plus_step`).
        probability: p, the probability of a communication after a local step, in (0, 1].
        clients: The number of clients, which `bind` sets.

    Raises:
        UserError: Where a codec is biased, or C is not linear, or lr is left out and L_i are not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> codec = t.codecs.RandK(count=2, common=True)
        >>> trace = t.run(t.GradSkipPlus(t.Full(), codec, probability=0.5), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]
        640
    """

    sampler: Sampler
    codec: Codec = static()
    own_codec: Codec = static(default=Identity())
    lr: Positive | None = None
    probability: Fraction = 1.0
    clients: Count | None = static(default=None, repr=False, kw_only=True)

    is_dual = True

    def bind(self, problem):
        if not self.codec.linear:
            raise UserError(
                f"GradSkipPlus adds up payloads, and those of {type(self.codec).__name__} do not: take a linear codec"
            )
        sampler = full_pass(self.sampler, problem.population)
        lr = gradskip_plus_step(problem, self.codec, self.own_codec, self.probability) if self.lr is None else self.lr
        return replace(self, sampler=sampler, lr=lr, clients=problem.clients)

    def start(self, ask, x):
        payload = self._encoded(x, jnp.zeros(2, "uint32"))
        return PlusState(x, jax.tree.map(lambda part: jnp.broadcast_to(part, (self.clients, *jnp.shape(part))), payload))

    def client_state(self, x):
        return BeforeMean(x, zeros(x), jnp.zeros(2, "uint32"))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        key = jax.random.key_data(ask.key())
        steps = jax.random.geometric(ask.key(), self.probability, dtype="int32")
        cohort = ask.draw(self.sampler)
        own = Each(jax.tree.map(lambda owed: owed[cohort.ids], server.owed))
        replies = ask(cohort, self.train, (own, key, steps))
        ask.observe(replies)
        mean = replies.mean()
        x = add(server.x, self._missing(server.x, mean, key), -1.0)
        answered = jnp.where(replies.answered, cohort.ids, self.clients)
        owed = jax.tree.map(lambda owed, mean: owed.at[answered].set(mean, mode="drop"), server.owed, mean)
        return PlusState(if_any(replies, x, server.x), owed)

    @on_client
    def train(self, client, message):
        """C(x_i - (lr / s) h_i) after `steps` local steps."""
        owed, key, steps = message
        x, h, last = client.state
        lr, rate = self._lr, jnp.asarray(self.probability / self._lr / (1 + variance_of(self.codec, x)))
        missing, scale = self._missing(x, owed, last), 1 / (1 + variance_of(self.own_codec, x))

        def step(carry):
            x, h, k = carry
            slope = client.grad(x)
            own = client.with_key(jax.random.fold_in(client.key, k))
            change = compress(self.own_codec, add(slope, h, -1.0), own, None)[1]
            return add(x, change, -lr * scale), add(slope, change, -scale), k + 1

        x, h, _ = client.loop(steps, step, (add(x, missing, -1.0), add(h, missing, -rate), jnp.int32(0)))
        return Done(self._encoded(add(x, h, -1 / rate), key), BeforeMean(x, h, key), steps)

    def _encoded(self, x: PyTree, key) -> PyTree:
        """Return the payload of C(x)."""
        direction = parts_of(self.codec, x)
        return direction.send(x, direction.memory(), jax.random.wrap_key_data(key, impl="threefry2x32"))[0]

    def _missing(self, x: PyTree, payload: PyTree, key) -> PyTree:
        """Return C(x - v) / (1 + omega), given the payload of C(v)."""
        direction, own = parts_of(self.codec, x), jax.random.wrap_key_data(key, impl="threefry2x32")
        read = [direction.receive(each, direction.memory(), own)[0] for each in (self._encoded(x, key), payload)]
        scale = 1 / (1 + variance_of(self.codec, x))
        return jax.tree.map(lambda x, v: scale * (x - v), *read)

    @property
    def _lr(self) -> Any:
        """The step size, which `bind` sets where it is not given."""
        return self.lr


def _best(problem) -> Float[np.ndarray, " n"]:
    """Return the q_i of theory."""
    constants = problem.constants()
    mu = 0.0 if constants is None else float(np.min(constants.convexity))
    if mu <= 0:
        raise UserError(f"no mu_i > 0 of {type(problem).__name__} are known, so the q_i do not follow: give going")
    shares = 1 - mu / np.asarray(constants.smoothness, float)
    largest = shares.max()
    return shares / largest if largest > 0 else np.ones_like(shares)


def _last_step(key: PyTree, q: Float[Array, ""], most: Any) -> Int[Array, ""]:
    """Return the number of the first step, from 1, whose coin shows 0, or `most` if that is less."""
    luck = jnp.log(jax.random.uniform(key, (), q.dtype, minval=jnp.finfo(q.dtype).tiny))
    before = luck / jnp.log(jnp.where((q > 0) & (q < 1), q, 0.5))
    before = jnp.where(q >= 1, jnp.inf, jnp.where(q <= 0, 0, before))
    return jnp.minimum(before, jnp.asarray(most - 1, q.dtype)).astype("int32") + 1
