"""FedNL: Newton's method with a Hessian that the server learns from compressed differences."""

from dataclasses import field, replace
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.learned_hessian import (
    LearnedHessian,
    hessian_of,
    mean_convexity,
    projected_step,
    shifted_solution,
    side,
    zero_triangle,
)
from turnout.codecs.base import Codec
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.errors import UserError
from turnout.core.records import Positive, record, static
from turnout.core.replies import if_any
from turnout.core.tree import add


class FedNlState(NamedTuple):
    """x, and `hessian` = H = sum_i lambda_i H_i, a triangle."""

    x: PyTree
    hessian: Float[Array, " t"]


@record
class FedNl(LearnedHessian):
    """FedNL (Safaryan, Islamov, Qian and Richtarik, 2022, Algorithm 1), and Newton-Zero, for any sampler.

    x <- x - M^-1 sum_{i in S} (lambda_i / p_i) grad f_i(x), M = [H]_mu by option "I" and H + l I by "II", H = sum_i lambda_i H_i,
    l = sum_{i in S} (lambda_i / p_i) |grad^2 f_i(x) - H_i|, then H_i <- H_i + C(grad^2 f_i(x) - H_i) for i in S.

    [H]_mu is H with eigenvalues of at least mu, and norms are Frobenius norms. A reply has the gradient and the payload of C, with
    "II" one number more; H is d (d + 1) / 2 numbers. C is a contraction of triangles such as `Eigenpairs` or `TopK`, in whose
    norm entries off the diagonal count twice, or an unbiased codec with variance omega, which is divided by 1 + omega: alpha = 1
    of the paper for the first, 1 / (1 + omega) for the second. Without a codec H_i stays as it is, and a reply is a gradient:
    Newton-Zero. The paper has full participation; `FedNlPp` converges with other cohorts too.

    Let all clients take part, f be mu-strongly convex and |grad^2 f_i(x) - grad^2 f_i(y)| <= L |x - y|. By "I", where x_0 is so
    close to x* that L |x_0 - x*| <= mu / sqrt 2 and all |H_i - grad^2 f_i(x*)| <= mu / (2 sqrt 2) in the root mean square,

        |x_t - x*|^2 <= 2^-t |x_0 - x*|^2                                                   (Theorem 3.6)

    whatever the condition number, and |x_{t+1} - x*| / |x_t - x*| tends to 0 with a codec: sum_i lambda_i |H_i - grad^2 f_i(x*)|^2
    + 6 B L^2 |x - x*|^2 falls by 1 - min(A, 1 / 3) a round. A = alpha / 4 and B = 6 / alpha - 7 / 2 for a contraction by 1 - alpha.

    Args:
        sampler: Who takes part in each round.
        codec: C, of triangles; None for Newton-Zero.
        option: "I" or "II".
        mu: mu of option "I", > 0; None means sum_i lambda_i mu_i of the problem.
        first: The first H_i: the "hessian" at the first x, which a pass over all clients sends whole, or "zero".
        everyone: Sampler of that pass. Set by `bind`.

    Raises:
        UserError: Where the problem has no second derivatives, mu is not known, or there is no codec and H_i is "zero" or the
            option "II".

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.FedNl(t.Full(), t.codecs.Eigenpairs(rank=1)), problem, rounds=5)
        >>> trace.ledger.totals()["bytes_up"]  # 8 clients, 21 numbers, then 5 times a gradient, a vector and its eigenvalue
        5504
    """

    codec: Codec | None = static(default=None)
    option: Literal["I", "II"] = static(default="I")
    mu: Positive | None = field(default=None, kw_only=True)

    def __post_init__(self):
        if self.codec is None and (self.first == "zero" or self.option == "II"):
            raise UserError(
                f"{type(self).__name__} without a codec keeps the first Hessians: take first = 'hessian' and option = 'I'"
            )

    def bind(self, problem):
        bound = super().bind(problem)
        return bound if self.mu is not None or self.option == "II" else replace(bound, mu=mean_convexity(self, problem))

    def client_state(self, x):
        return None if self.codec is None else zero_triangle(x)

    def start(self, ask, x):
        return FedNlState(x, ask(self.everyone, self.begin, x).total() if self.passes else zero_triangle(x))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        if self.codec is None:
            replies = ask(self.sampler, self.slope, server.x)
            gradient, hessian = replies.average(), server.hessian
        else:
            replies = self.ask_differences(ask, self.sampler, self.difference, server.x)
            gradient, hessian = replies.average()[0], server.hessian + replies.total()[1]
        ask.observe(replies)
        return if_any(replies, FedNlState(self.moved(server, gradient), hessian), server)

    def moved(self, server: FedNlState, replied: PyTree) -> PyTree:
        """Return the new x.

        Args:
            server: x and H before the round.
            replied: The average of the gradients, with "II" and that of the distances |grad^2 f_i(x) - H_i|.
        """
        if self.option == "I":
            return add(server.x, projected_step(server.hessian, self.mu, replied))
        gradient, distance = replied
        return add(server.x, shifted_solution(server.hessian, distance, gradient), -1.0)

    @on_client
    def begin(self, client, x):
        """The first H_i."""
        hessian = hessian_of(client, x)
        return Done(hessian, None if self.codec is None else hessian, queries=side(x))

    @on_client
    def slope(self, client, x):
        """grad f_i(x)."""
        return Done(client.grad(x))

    @on_client
    def difference(self, client, message):
        """grad f_i(x), with "II" and |grad^2 f_i(x) - H_i|, and the payload of the change of H_i."""
        x, key = message
        gradient, hessian = client.grad(x), hessian_of(client, x)
        replied = gradient if self.option == "I" else (gradient, jnp.linalg.norm(hessian - client.state))
        payload, learned = self.learn(client, hessian, client.state, key)
        return Done((replied, payload), learned, queries=1 + side(x))
