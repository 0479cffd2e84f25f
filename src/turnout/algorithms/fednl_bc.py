"""FedNL with bidirectional compression: the model reaches clients compressed, and gradients are left out by chance."""

from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from turnout.algorithms.learned_hessian import LearnedHessian, hessian_of, projected_step, side, with_mu, zero_triangle
from turnout.codecs.base import Codec
from turnout.codecs.trees import ask_compressed, compressed_message, read_message
from turnout.core.algorithm import on_client
from turnout.core.client import Client, Done
from turnout.core.records import Count, Fraction, Positive, record, static
from turnout.core.tree import add, where, zeros
from turnout.samplers.full_pass import full_pass


class FedNlBcState(NamedTuple):
    """State of the server.

    Args:
        x: The parameters.
        point: w, where the gradient was taken last.
        gradient: grad f(w).
        known: z, the model that all clients have.
        hessian: H, a triangle.
        news: C_M(x - z), as it travels.
        step: C_M(x - z).
        number: How often all clients have moved z.
    """

    x: PyTree
    point: PyTree
    gradient: PyTree
    known: PyTree
    hessian: Float[Array, " t"]
    news: PyTree
    step: PyTree
    number: Int[Array, ""]


class Informed(NamedTuple):
    """State of a client: z, H_i, a triangle, and how often it has moved z."""

    known: PyTree
    learned: Float[Array, " t"]
    heard: Int[Array, ""]


@record
class FedNlBc(LearnedHessian):
    """FedNL with bidirectional compression (Safaryan, Islamov, Qian and Richtarik, 2022, FedNL-BC), by option "I".

    z <- z + C_M(x - z); w <- z with a probability p, else w stays; x <- w - H_mu^-1 grad f(w), H = sum_i lambda_i H_i, then
    H_i <- H_i + C(grad^2 f_i(z) - H_i).

    All clients take part, and know z, which begins at the first x. A message has the payload of C_M and the number of the step;
    a reply has that of C, and with a probability p the gradient at z. The paper's x <- z - H_mu^-1 g with g = grad f(w) +
    H_mu (z - w) is the step from w. H_mu is H with eigenvalues of at least mu. Both codecs are contractions, or unbiased with
    variance omega and divided by 1 + omega. With p = 1 and a C_M that loses nothing it is `FedNl` by option "I".

    Where a reply is missing, z, w and x stay, and the message is sent again; who has moved by it does not move twice.

    On quadratics with the first Hessians x is x* from the first round on, and |z - x*|^2 falls by 1 - alpha for a C_M that
    contracts by 1 - alpha, whatever p is.

    Args:
        sampler: Its cohort size is the number of clients that a pass asks at a time; all take part in each round.
        codec: C, of triangles.
        down: C_M, of the parameters.
        probability: p, the probability that a reply has the gradient; in the first round it has.
        mu: mu, > 0; None means sum_i lambda_i mu_i of the problem.
        first: The first H_i: the "hessian" at the first x, which a pass over all clients sends whole, or "zero".
        everyone: Sampler of that pass. Set by `bind`.
        clients: The number of clients. Set by `bind`.

    Raises:
        UserError: Where the problem has no second derivatives, or mu is not known.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> algorithm = t.FedNlBc(t.Full(), t.codecs.Eigenpairs(rank=1), t.codecs.TopK(count=2), probability=0.5)
        >>> trace = t.run(algorithm, problem, rounds=5, seed=1)
        >>> trace.ledger.totals()["bytes_down"] < 5 * 8 * 6 * 8  # less than the whole model in each round
        True
    """

    codec: Codec = static()
    down: Codec = static()
    probability: Fraction = 1.0
    mu: Positive | None = field(default=None, kw_only=True)
    clients: Count = static(default=1, repr=False, kw_only=True)

    def bind(self, problem):
        bound = with_mu(super().bind(problem), problem)
        return replace(bound, sampler=full_pass(self.sampler, problem.population), clients=problem.clients)

    def client_state(self, x):
        return Informed(x, zero_triangle(x), jnp.zeros((), "int32"))

    def start(self, ask, x):
        hessian = ask(self.everyone, self.begin, x).total() if self.passes else zero_triangle(x)
        news, step = compressed_message(self.down, zeros(x), ask.key())
        return FedNlBcState(x, x, zeros(x), x, hessian, news, step, jnp.zeros((), "int32"))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        def told(method):
            def exchanged(gradient):
                replies = ask_compressed(
                    ask,
                    self.sampler,
                    method,
                    (server.news, server.number),
                    self.codec,
                    server.hessian,
                    contract=True,
                    beside=True,
                )
                ask.observe(replies)
                sent, change = replies.total()
                return gradient if sent is None else sent, change, jnp.sum(replies.answered) == self.clients

            return exchanged

        chosen = (server.number == 0) | jax.random.bernoulli(ask.key(), self.probability)
        gradient, change, complete = ask.cond(chosen, told(self.whole), told(self.difference), server.gradient)
        known = add(server.known, server.step)
        point = where(chosen, known, server.point)
        x = add(point, projected_step(server.hessian, self.mu, gradient))
        news, step = compressed_message(self.down, add(x, known, -1.0), ask.key())
        hessian = server.hessian + change
        moved = FedNlBcState(x, point, gradient, known, hessian, news, step, server.number + 1)
        return where(complete, moved, server._replace(hessian=hessian))

    @on_client
    def begin(self, client, x):
        """The first H_i."""
        hessian = hessian_of(client, x)
        return Done(hessian, client.state._replace(learned=hessian), queries=side(x))

    @on_client
    def whole(self, client, message):
        """grad f_i(z), and the payload of the change of H_i."""
        return self._told(client, message, gradient=True)

    @on_client
    def difference(self, client, message):
        """The payload of the change of H_i."""
        return self._told(client, message, gradient=False)

    def _told(self, client: Client, message: tuple, gradient: bool) -> Done:
        (news, number), key = message
        own: Any = client.state
        step = read_message(self.down, news, own.known)
        known = where(own.heard == number, add(own.known, step), own.known)
        payload, learned = self.learn(client, hessian_of(client, known), own.learned, key)
        sent = client.grad(known) if gradient else None
        return Done((sent, payload), Informed(known, learned, number + 1), queries=gradient + side(known))
