"""fedjax: its federated averaging, with full batches and the clients of given cohorts."""

from importlib.metadata import version

import fedjax
import jax
import jax.numpy as jnp

from benchmarks.peers.serve import Workload, serve


def prepare(w: Workload):
    def loss(params, batch, _):
        scores = batch["x"] @ params
        return jnp.mean(jnp.logaddexp(0, -batch["y"] * scores)) + w.mu / 2 * (params @ params)

    data = fedjax.InMemoryFederatedData({client: {"x": w.features[client], "y": w.labels[client]} for client in range(w.clients)})
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.jit(jax.grad(loss)),
        fedjax.optimizers.sgd(w.lr),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=w.batch, num_epochs=w.epochs, skip_shuffle=True),
    )
    key, cohorts = jax.random.PRNGKey(0), w.cohorts.tolist()

    def start(rounds: int):
        def play():
            state = algorithm.init(jnp.asarray(w.start))
            for number, cohort in enumerate(cohorts[:rounds]):
                keys = jax.random.split(jax.random.fold_in(key, number), len(cohort))
                clients = [(client, rows, key) for (client, rows), key in zip(data.get_clients(cohort), keys, strict=True)]
                state, _ = algorithm.apply(state, clients)
            return state.params.block_until_ready()

        return play

    return start


if __name__ == "__main__":
    serve(version("fedjax"), prepare)
