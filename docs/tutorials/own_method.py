# %% [markdown]
# # An algorithm and a sampler from a paper
#
# A paper gives pseudo-code. This tutorial writes an algorithm and a sampler from theirs, checks both with the checks of turnout's own test suite, and runs
# them together. It takes ten minutes, and needs `pip install 'turnout[report]'`.
#
# ## The pseudo-code
#
# A round of FedAvg with server momentum (Hsu et al., 2019) is
#
# 1. the server draws a cohort S and sends x to its clients;
# 2. client i takes K steps y <- y - eta grad f_i(y) from y = x, and returns y - x;
# 3. v <- beta v + the average of the replies; x <- x + v.
#
# In turnout an algorithm is a record of hyper-parameters. `ask(sampler, method, message)` is step 1 and 2: it draws a cohort, lets each of its clients
# run the method on the message, and returns the replies. Everything outside of `ask` is the server's own. What has to last from round to round is
# returned by `start` and `round`.

# %%
import altair
import jax
import jax.numpy as jnp

import turnout as t
from turnout.testing import check

altair.renderers.enable("html", template="inline")


@t.record
class FedAvgM(t.Algorithm):
    """v <- beta v + mean of (y_i - x); x <- x + v."""

    sampler: t.Sampler
    lr: float
    beta: float
    steps: int

    def start(self, ask, x):
        return x, jnp.zeros_like(x)

    def output(self, server):
        return server[0]

    def round(self, ask, server):
        x, v = server
        v = self.beta * v + ask(self.sampler, self.train, x).average()
        return x + v, v

    @t.on_client
    def train(self, client, x):
        y = client.loop(self.steps, lambda y: y - self.lr * client.grad(y), x)
        return t.Done(y - x, queries=self.steps)


# %% [markdown]
# `average()` divides each reply by the probability with which its client is drawn, so that it is unbiased for the mean over all clients, whatever the
# sampler. `queries` tells the ledger how many gradients the client computed.
#
# ## A check
#
# `check` runs the algorithm compiled and as separate nodes that exchange only bytes, stops and resumes it, loses replies, and counts messages. It
# raises an error with one sentence where something does not hold.

# %%
small = t.Quadratic.random(clients=6, dimension=3, seed=0)
check(FedAvgM(t.Nice(2), lr=0.02, beta=0.5, steps=3), small)

# %% [markdown]
# ## A sampler
#
# A sampler draws a cohort and declares the probability of each client that it draws. Systematic sampling puts the clients on a circle, each with an arc of
# length p_i, and takes the clients at K points with the same distance, of which the first is uniform. So client i is drawn with probability K p_i, if no
# K p_i is above 1.


# %%
@t.record
class Systematic(t.Sampler):
    """K points at distance 1/K on a circle, on which client i has an arc of length p_i."""

    shares: jax.Array
    size: int = t.static()

    def points(self, key):
        """The clients at the points."""
        points = (jax.random.uniform(key) + jnp.arange(self.size)) / self.size
        return jnp.searchsorted(jnp.cumsum(self.shares), points).clip(0, len(self.shares) - 1)

    def draw(self, state, key, population):
        ids = self.points(key)
        return t.Cohort.of(ids, self.size * self.shares[ids], population, selection="random")


shares = jnp.array([0.3, 0.3, 0.1, 0.1, 0.1, 0.1])
check(Systematic(shares, 2), small)

# %% [markdown]
# What if the declared probabilities are wrong? Averages are then biased, and no run raises an error. The check does.


# %%
@t.record
class Wrong(Systematic):
    """The same draws, which are declared to be uniform."""

    def draw(self, state, key, population):
        return t.Cohort.of(self.points(key), self.size / population.count, population, selection="random")


try:
    check(Wrong(shares, 2), small)
except t.UserError as error:
    print(error)

# %% [markdown]
# ## Together
#
# Any algorithm goes with any sampler. A sweep is one compiled program for all settings and seeds.

# %%
problem = t.Quadratic.random(clients=20, dimension=5, seed=1)
target = t.Target("distance", below=0.1)
curvature = jnp.asarray(problem.constants().smoothness)
for sampler in (t.Nice(4), Systematic(curvature / curvature.sum(), 4)):
    sweep = t.sweep(
        FedAvgM(sampler, lr=0.01, beta=0.0, steps=5),
        problem,
        {"lr": [0.001, 0.003, 0.01, 0.03], "beta": [0.0, 0.5, 0.9]},
        seeds=range(5),
        rounds=400,
        target=target,
    )
    print(type(sampler).__name__)
    print(sweep.costs(t.Exchanges()).head(3))

# %% [markdown]
# ## Where to go on
#
# * [Everything that `ask` offers](../algorithms.md), client states and several exchanges in a round among it.
# * [Tests of a part of your own](../testing.md).
# * In a file, `kind = "module:FedAvgM"` names the class, so that `turnout run`, `study` and `deploy` take it.
