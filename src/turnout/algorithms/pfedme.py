"""pFedMe: the mean of the clients' Moreau envelopes is minimised, and each client uses its proximal point."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp

from turnout.client_solvers import LocalSolver, Tilt
from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Count, Positive, record
from turnout.core.tree import add
from turnout.samplers import Sampler


@record
class PFedMe(Algorithm):
    """pFedMe: personalised federated learning with Moreau envelopes (T. Dinh et al., 2020, Algorithm 1).

    x <- x + server_lr mean_{i in S} (w_i - x), where w_i is x after `steps` local rounds
    theta_i = argmin_w f_i(w) + (lam / 2) |w - w_i|^2, w_i <- w_i - lr lam (w_i - theta_i).

    lam (w - theta_i) is the gradient at w of the envelope F_i(w) = min_v f_i(v) + (lam / 2) |v - w|^2 for an exact theta_i. So
    x is after sum_i lambda_i F_i, and with one local round and everyone a fixed point is a minimum of it. Each client uses the
    last theta_i that it found, x_0 before. The search for theta_i begins at w_i. In the paper all clients compute in each
    round, and the server uses the replies of a part; here only that part is asked. `server_lr` is beta.

    Args:
        sampler: Who takes part in each round.
        solver: How a client finds theta_i.
        lr: Step size of the w_i, > 0.
        steps: Local rounds.
        lam: Weight of the proximal term, > 0.
        server_lr: Step size of the server, > 0.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> algorithm = t.PFedMe(t.Nice(4), t.client_solvers.Bfgs(), lr=0.05, steps=2, lam=5.0)
        >>> trace = t.run(algorithm, problem, rounds=5)
        >>> trace.ledger.totals()["vectors_up"]
        20
    """

    sampler: Sampler
    solver: LocalSolver
    lr: Positive
    steps: Count = 5
    _: KW_ONLY
    lam: Positive
    server_lr: Positive = 1.0

    personalises = True

    def client_state(self, x):
        return x

    def own_model(self, x, state):
        return state

    def round(self, ask, x):
        replies = ask(self.sampler, self.train, x)
        ask.observe(replies)
        return add(x, replies.mean(), self.server_lr)

    @on_client
    def train(self, client, x):
        """w_i - x."""

        def local_round(carry):
            number, w, _, queries = carry
            own = client.with_key(jax.random.fold_in(client.key, number))
            solved = self.solver.minimise(own, Tilt(weight=self.lam, centre=w), w)
            pull = add(w, solved.point, -1.0)
            return number + 1, add(w, pull, -self.lr * self.lam), solved.point, queries + jnp.asarray(solved.queries, "int32")

        zero = jnp.zeros((), "int32")
        _, w, theta, queries = client.loop(self.steps, local_round, (zero, x, client.state, zero))
        return Done(add(w, x, -1.0), theta, queries)
