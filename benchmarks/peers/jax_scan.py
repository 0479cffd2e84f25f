"""Federated averaging of logistic regression in JAX alone: rounds as one compiled program, as one would write it for one use."""

from functools import partial

import jax
import jax.numpy as jnp

from benchmarks.peers.serve import Workload, serve


@partial(jax.jit, static_argnames="steps")
def run(x, features, labels, cohorts, lr, mu, steps: int):
    """Return the parameters after one round for each cohort: no counting, no sampling, nothing to choose."""

    def loss(x, rows, signs):
        return jnp.mean(jnp.logaddexp(0, -signs * (rows @ x))) + mu / 2 * (x @ x)

    def local(x, rows, signs):
        return jax.lax.fori_loop(0, steps, lambda _, y: y - lr * jax.grad(loss)(y, rows, signs), x)

    def one_round(x, ids):
        return jnp.mean(jax.vmap(local, (None, 0, 0))(x, features[ids], labels[ids]), axis=0), None

    return jax.lax.scan(one_round, x, cohorts)[0]


def prepare(w: Workload):
    x, features, labels = map(jnp.asarray, (w.start, w.features, w.labels))

    def start(rounds: int):
        cohorts = jnp.asarray(w.cohorts[:rounds])
        return lambda: run(x, features, labels, cohorts, w.lr, w.mu, w.epochs).block_until_ready()

    return start


if __name__ == "__main__":
    serve(jax.__version__, prepare)
