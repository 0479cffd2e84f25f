"""FedRed: full gradients, each followed by a random number of steps of a delegate."""

from dataclasses import replace

import jax

from turnout.algorithms.icgm import Model, last
from turnout.algorithms.passes import Gradients, everyone
from turnout.core.algorithm import on_client
from turnout.core.client import Done
from turnout.core.records import Fraction, Positive, record
from turnout.core.tree import add
from turnout.samplers import Delegate, Sampler


@record
class FedRed(Gradients):
    """x <- y_K, K geometric with mean 1 / p, from y_0 = x by y <- argmin_z <grad f_1(y) + grad f(x) - grad f_1(x), z>

    + (eta / 2) |z - y|^2 + (lam / 2) |z - x|^2, f_1 being the delegate's function and eta = `smoothness`.

    FedRed-GD (Jiang et al., 2024; cost-aware client selection, appendix A). A round is what happens for one x: a pass over all
    clients for grad f(x), as many at a time as `sampler` draws, then one exchange with the delegate, who flips the coins. In
    theory lam = Delta_1, eta = L_1 and p = `probability` = lam / (lam + eta), which it is unless given.
    """

    sampler: Sampler
    lam: Positive
    smoothness: Positive
    probability: Fraction | None = None
    delegate: Sampler = Delegate()

    def bind(self, problem):
        return replace(self, sampler=everyone(self.sampler, problem.population))

    def round(self, ask, x):
        gradient = ask(self.sampler, self.gradient, x).mean()
        return add(x, ask(self.delegate, self.descend, (x, gradient)).mean())

    @on_client
    def descend(self, client, message):
        """y_K - x."""
        x, gradient = message
        probability = self.lam / (self.lam + self.smoothness) if self.probability is None else self.probability
        steps = jax.random.geometric(client.key, probability, dtype="int32")
        first = client.grad(x)
        model = Model(x, add(first, gradient, -1.0), self.lam, self.smoothness)
        y = last(client, model, lambda _, y: client.grad(y), model.step(x, first), steps - 1)
        return Done(add(y, x, -1.0), queries=steps)
