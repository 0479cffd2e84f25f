"""SCAFFOLD (Karimireddy et al., 2020, Algorithm 1, option I): an algorithm with client state, for the tests."""

import jax
import jax.numpy as jnp

from turnout import Algorithm, Done, Sampler, on_client, record


@record
class Scaffold(Algorithm):
    """y <- y - lr (grad f_i(y) - c_i + c); c_i <- grad f_i(x); x <- x + mean dy; c <- c + (|S| / n) mean dc."""

    sampler: Sampler
    lr: float
    steps: int

    def start(self, ask, x):
        return x, jax.tree.map(jnp.zeros_like, x)

    def client_state(self, x):
        return jax.tree.map(jnp.zeros_like, x)

    def output(self, server):
        return server[0]

    def round(self, ask, server):
        x, c = server
        replies = ask(self.sampler, self.train, (x, c))
        n = ask.job.population.count
        dx, dc = replies.mean()
        share = jnp.sum(replies.answered) / n
        return jax.tree.map(jnp.add, x, dx), jax.tree.map(lambda c, dc: c + share * dc, c, dc)

    @on_client
    def train(self, client, message):
        x, c = message
        control = client.grad(x)

        def step(y):
            return jax.tree.map(lambda y, g, ci, c: y - self.lr * (g - ci + c), y, client.grad(y), client.state, c)

        y = client.loop(self.steps, step, x)
        change = jax.tree.map(jnp.subtract, control, client.state)
        return Done((jax.tree.map(jnp.subtract, y, x), change), state=control, queries=self.steps + 1)
