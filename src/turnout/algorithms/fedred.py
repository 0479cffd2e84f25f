"""FedRed: full gradients, each followed by a random number of steps of a delegate."""

from dataclasses import field, replace

import jax

from turnout.core.algorithm import Algorithm, on_client
from turnout.core.client import Done
from turnout.core.records import Fraction, Positive, record
from turnout.core.tree import add
from turnout.samplers import Delegate, Sampler
from turnout.samplers.full_pass import full_pass


@record
class FedRed(Algorithm):
    """FedRed-GD (Jiang et al., 2024; Cost-aware client selection, appendix A).

    x <- y_K, K geometric with mean 1 / p, from y_0 = x by steps of the delegate, which holds f_1:

        y <- argmin_z <grad f_1(y) + grad f(x) - grad f_1(x), z> + (eta / 2) |z - y|^2 + (lam / 2) |z - x|^2.

    A round is a full pass for grad f(x), as many clients at a time as `sampler` draws, then one exchange with the delegate, which
    draws K. In theory lam = Delta_1, eta = L_1 and p = lam / (lam + eta).

    Args:
        sampler: Its cohort size is the number of clients asked at a time.
        lam: Weight of the term that ties y to x.
        smoothness: eta.
        probability: p; None means lam / (lam + eta).
        delegate: Draws the delegate.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(clients=8, dimension=3, seed=0)
        >>> trace = t.run(t.FedRed(t.Nice(2), lam=2.0, smoothness=10.0), problem, rounds=10)
        >>> trace.ledger.totals()["draws_arbitrary"], trace.ledger.totals()["draws_delegate"]
        (40, 10)
    """

    sampler: Sampler
    lam: Positive
    smoothness: Positive
    probability: Fraction | None = field(default=None, kw_only=True)
    delegate: Sampler = field(default=Delegate(), kw_only=True)

    cohorts_per_round = None

    def bind(self, problem):
        return replace(self, sampler=full_pass(self.sampler, problem.population))

    def round(self, ask, x):
        gradient = ask(self.sampler, self.gradient, x).mean()
        return add(x, ask(self.delegate, self.descend, (x, gradient)).mean())

    @on_client
    def gradient(self, client, x):
        """grad f_i(x)."""
        return Done(client.grad(x))

    @on_client
    def descend(self, client, message):
        """y_K - x."""
        x, gradient = message
        lam, eta = self.lam, self.smoothness
        probability = lam / (lam + eta) if self.probability is None else self.probability
        steps = jax.random.geometric(client.key, probability, dtype="int32")
        first = client.grad(x)
        drift = add(first, gradient, -1.0)

        def step(y, slope):
            return jax.tree.map(lambda y, x, drift, slope: (eta * y + lam * x + drift - slope) / (lam + eta), y, x, drift, slope)

        y = client.loop(steps - 1, lambda y: step(y, client.grad(y)), step(x, first))
        return Done(add(y, x, -1.0), queries=steps)
