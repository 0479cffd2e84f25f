"""FedNL: Newton's method with a Hessian that the server learns from compressed differences."""

from dataclasses import field
from typing import Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.learned_hessian import (
    LearnedHessian,
    hessian_of,
    projected_step,
    shifted_solution,
    side,
    with_mu,
    zero_triangle,
)
from turnout.codecs.base import Codec
from turnout.core.algorithm import Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.errors import UserError
from turnout.core.records import Positive, record, static
from turnout.core.replies import Replies, if_any
from turnout.core.tree import add


class FedNlState(NamedTuple):
    """x, and `hessian` = H = sum_i lambda_i H_i, a triangle."""

    x: PyTree
    hessian: Float[Array, " t"]


@record
class LearnedNewton(LearnedHessian):
    """Steps with H: what `FedNl`, `FedNlLs` and `FedNlCr` share.

    Args:
        sampler: Who takes part in each round.
        codec: C, of triangles; None keeps the first H_i.
        first: The first H_i, the "hessian" or "zero".
        everyone: Sampler of the first pass. Set by `bind`.
    """

    codec: Codec | None = static(default=None)

    def __post_init__(self):
        if self.codec is None and self.first == "zero":
            raise UserError(f"{type(self).__name__} without a codec keeps the first Hessians: take first = 'hessian'")

    @property
    def measures(self) -> bool:
        """Whether replies have |grad^2 f_i(x) - H_i| too."""
        return False

    def client_state(self, x):
        return None if self.codec is None else zero_triangle(x)

    def start(self, ask, x):
        return FedNlState(x, ask(self.everyone, self.begin, x).total() if self.passes else zero_triangle(x))

    def output(self, server):
        return server.x

    def heard(self, ask: Ask, server: FedNlState) -> tuple[Replies, PyTree, Float[Array, " t"]]:
        """Return the replies of a new cohort, their average but for the changes of the H_i, and the new H.

        Args:
            ask: Access to the clients.
            server: x and H before the round.
        """
        if self.codec is None:
            replies = ask(self.sampler, self.evaluate, server.x)
            ask.observe(replies)
            return replies, replies.average(), server.hessian
        replies = self.ask_differences(ask, self.sampler, self.difference, server.x)
        ask.observe(replies)
        return replies, replies.average()[0], server.hessian + replies.total()[1]

    def evaluated(self, client: Client, x: PyTree) -> PyTree:
        """Return what a reply has beside the payload.

        Args:
            client: The client.
            x: The parameters.
        """
        return client.grad(x)

    @on_client
    def begin(self, client, x):
        """The first H_i."""
        hessian = hessian_of(client, x)
        return Done(hessian, None if self.codec is None else hessian, queries=side(x))

    @on_client
    def evaluate(self, client, x):
        """What a reply has without a payload."""
        return Done(self.evaluated(client, x))

    @on_client
    def difference(self, client, message):
        """What a reply has, with |grad^2 f_i(x) - H_i| where it is measured, and the payload of the change of H_i."""
        x, key = message
        replied, hessian = self.evaluated(client, x), hessian_of(client, x)
        replied = (replied, jnp.linalg.norm(hessian - client.state)) if self.measures else replied
        payload, learned = self.learn(client, hessian, client.state, key)
        return Done((replied, payload), learned, queries=1 + side(x))


@record
class FedNl(LearnedNewton):
    """FedNL (Safaryan, Islamov, Qian and Richtarik, 2022, Algorithm 1), and Newton-Zero, for any sampler.

    x <- x - M^-1 sum_{i in S} (lambda_i / p_i) grad f_i(x), M = H_mu by option "I" and H + l I by "II", H = sum_i lambda_i H_i,
    l = sum_{i in S} (lambda_i / p_i) |grad^2 f_i(x) - H_i|, then H_i <- H_i + C(grad^2 f_i(x) - H_i) for i in S.

    H_mu is H with eigenvalues of at least mu, and norms are Frobenius norms. A reply has the gradient and the payload of C, and
    with "II" a number more; H is d (d + 1) / 2 numbers. C is a contraction of triangles such as `Eigenpairs` or `TopK`, in whose
    norm entries off the diagonal count twice, or an unbiased codec with variance omega, which is divided by 1 + omega: alpha = 1
    of the paper for the first, 1 / (1 + omega) for the second. Without a codec H_i stays as it is, and a reply is a gradient:
    Newton-Zero. The paper has full participation; `FedNlPp` converges with other cohorts too.

    Let all clients take part, f be mu-strongly convex and |grad^2 f_i(x) - grad^2 f_i(y)| <= L |x - y|, and e_t^2 be the mean of
    |H_i - grad^2 f_i(x*)|^2. By "I", where L |x_0 - x*| <= mu / sqrt 2 and e_t <= mu / (2 sqrt 2) in each round,

        |x_t - x*|^2 <= 2^-t |x_0 - x*|^2                                                   (Theorem 3.6)

    whatever the condition number, and e_t^2 + 6 B L^2 |x_t - x*|^2 falls by 1 - min(A, 1 / 3) a round, so that |x_t - x*| falls
    superlinearly. For contractions by 1 - alpha, A = alpha / 4 and B = 6 / alpha - 7 / 2; then e_0 <= mu / (2 sqrt 2) and
    L |x_0 - x*| <= mu sqrt(A / (8 B)) bound all e_t. For Newton-Zero all e_t are e_0.

    Proof of the first: H_mu is no farther from grad^2 f(x*) than H, so that mu |x_{t+1} - x*| <=
    |H_mu (x_t - x*) - grad f(x_t)| <= (e_t + (L / 2) |x_t - x*|) |x_t - x*|.

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

    option: Literal["I", "II"] = static(default="I")
    mu: Positive | None = field(default=None, kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        if self.codec is None and self.option == "II":
            raise UserError("FedNl without a codec keeps the first Hessians, and option 'II' measures them: take option = 'I'")

    def bind(self, problem):
        bound = super().bind(problem)
        return bound if self.measures else with_mu(bound, problem)

    @property
    def measures(self):
        return self.option == "II"

    def round(self, ask, server):
        replies, replied, hessian = self.heard(ask, server)
        if self.option == "I":
            x = add(server.x, projected_step(server.hessian, self.mu, replied))
        else:
            gradient, distance = replied
            x = add(server.x, shifted_solution(server.hessian, distance, gradient), -1.0)
        return if_any(replies, FedNlState(x, hessian), server)
