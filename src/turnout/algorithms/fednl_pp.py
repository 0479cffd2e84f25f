"""FedNL-PP: Newton steps towards the minimiser of all clients' last quadratic models, with cohorts of any sampler."""

from typing import NamedTuple

import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from turnout.algorithms.learned_hessian import LearnedHessian, hessian_of, shifted_solution, side, zero_triangle
from turnout.codecs.base import Codec
from turnout.core.algorithm import on_client
from turnout.core.client import Client, Done
from turnout.core.records import record, static
from turnout.core.replies import if_any
from turnout.core.tree import add, zeros
from turnout.core.triangle import symmetric


class Model(NamedTuple):
    """A quadratic model of f_i: g_i, l_i and H_i, a triangle; or the sums of lambda_i times these."""

    vector: PyTree
    shift: Float[Array, ""]
    hessian: Float[Array, " t"]


class FedNlPpState(NamedTuple):
    """x, and the sums g, l and H."""

    x: PyTree
    model: Model


@record
class FedNlPp(LearnedHessian):
    """FedNL with partial participation (Safaryan, Islamov, Qian and Richtarik, 2022, Algorithm 2), for any sampler.

    x = (H + l I)^-1 g, then for i in S: H_i <- H_i + C(grad^2 f_i(x) - H_i), l_i <- |H_i - grad^2 f_i(x)|,
    g_i <- (H_i + l_i I) x - grad f_i(x); H = sum_i lambda_i H_i, l = sum_i lambda_i l_i, g = sum_i lambda_i g_i over all clients.

    Norms are Frobenius norms, and C is that of `FedNl`. At first a pass asks everyone for g_i, l_i and, unless it is zero, H_i.
    A reply has the changes of g_i and l_i and the payload of C. Nothing is estimated from a cohort, so that x* is the fixed point
    whatever the sampler, and its probabilities are not used.

    Let w_i be the point that client i was last asked at, f_i be mu_i-strongly convex, mu = sum_i lambda_i mu_i,
    |grad^2 f_i(x) - grad^2 f_i(y)| <= L |x - y| and e_i = |H_i - grad^2 f_i(x*)|. Then

        mu |x - x*| <= sum_i lambda_i (2 e_i + 3 L / 2 |w_i - x*|) |w_i - x*|,

    so that near x* the error is at most half of the largest |w_i - x*|, and falls superlinearly as the H_i are learned.

    Proof: (H + l I) (x - x*) = sum_i lambda_i ((H_i + l_i I) (w_i - x*) - (grad f_i(w_i) - grad f_i(x*))). The i-th term is no
    longer than (e_i + l_i + L / 2 |w_i - x*|) |w_i - x*|, and l_i <= e_i + L |w_i - x*|. H_i + l_i I is at least grad^2 f_i(w_i).

    Args:
        sampler: Who takes part in each round.
        codec: C, of triangles.
        first: The first H_i: the "hessian" at the first x, sent whole, or "zero".
        everyone: Sampler of the first pass. Set by `bind`.

    Raises:
        UserError: Where the problem has no second derivatives, or clients are available by chance only.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=6, seed=0)
        >>> trace = t.run(t.FedNlPp(t.Nice(2), t.codecs.Eigenpairs(rank=1)), problem, rounds=5)
        >>> trace.ledger.totals()["exchanges"]
        6
    """

    codec: Codec = static()

    @property
    def passes(self):
        return True

    def client_state(self, x):
        return Model(zeros(x), jnp.zeros((), zero_triangle(x).dtype), zero_triangle(x))

    def start(self, ask, x):
        vector, shift, hessian = ask(self.everyone, self.begin, x).total()
        return solved(Model(vector, shift, zero_triangle(x) if hessian is None else hessian))

    def output(self, server):
        return server.x

    def round(self, ask, server):
        replies = self.ask_differences(ask, self.sampler, self.difference, server.x)
        ask.observe(replies)
        (vector, shift), hessian = replies.total()
        return if_any(replies, solved(add(server.model, Model(vector, shift, hessian))), server)

    @on_client
    def begin(self, client, x):
        """The first g_i, l_i and H_i; None where that is zero."""
        hessian = hessian_of(client, x)
        model = _model(client, x, hessian, hessian if self.first == "hessian" else jnp.zeros_like(hessian))
        return Done((*model[:2], hessian if self.first == "hessian" else None), model, queries=1 + side(x))

    @on_client
    def difference(self, client, message):
        """The changes of g_i and l_i, and the payload of that of H_i."""
        x, key = message
        hessian, old = hessian_of(client, x), client.state
        payload, learned = self.learn(client, hessian, old.hessian, key)
        model = _model(client, x, hessian, learned)
        change = add(model.vector, old.vector, -1.0), model.shift - old.shift
        return Done((change, payload), model, queries=1 + side(x))


def _model(client: Client, x: PyTree, hessian: Float[Array, " t"], learned: Float[Array, " t"]) -> Model:
    """Return the model of f_i at x, given its Hessian there and H_i; one query."""
    shift = jnp.linalg.norm(learned - hessian)
    flat, unravel = ravel_pytree(x)
    return Model(add(unravel(symmetric(learned) @ flat + shift * flat), client.grad(x), -1.0), shift, learned)


def solved(model: Model) -> FedNlPpState:
    """Return the minimiser x = (H + l I)^-1 g of a model, with the model.

    Args:
        model: g, l and H.
    """
    return FedNlPpState(shifted_solution(model.hessian, model.shift, model.vector), model)
