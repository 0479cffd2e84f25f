"""fedjax: its federated averaging, with the clients of given cohorts."""

from functools import partial
from importlib.metadata import version
from math import isqrt

import fedjax
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers.serve import Workload, serve


def logistic(mu, params, batch, _):
    return jnp.mean(jnp.logaddexp(0, -batch["y"] * (batch["x"] @ params))) + mu / 2 * (params @ params)


def network(w: Workload):
    """Return the loss of the network, and its parameters in the order and the shapes of PyTorch."""
    side = isqrt(w.features.shape[-1])
    wide = 64 * ((side - 8) // 2) ** 2
    shapes = [(32, 1, 5, 5), (32,), (64, 32, 5, 5), (64,), (128, wide), (128,), (w.classes, 128), (w.classes,)]
    parts = np.split(w.start, np.cumsum([np.prod(shape) for shape in shapes])[:-1])

    def convolved(images, kernel, bias):
        product = jax.lax.conv_general_dilated(images, kernel, (1, 1), "VALID")
        return jax.nn.relu(product + bias[:, None, None])

    def loss(params, batch, _):
        h = batch["x"].reshape(-1, 1, side, side).astype(jnp.float32) / 255
        h = convolved(convolved(h, *params[:2]), *params[2:4])
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID").reshape(len(h), -1)
        h = jax.nn.relu(h @ params[4].T + params[5]) @ params[6].T + params[7]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h), batch["y"][:, None], axis=1))

    return loss, [jnp.asarray(part.reshape(shape)) for part, shape in zip(parts, shapes, strict=True)]


def prepare(w: Workload):
    loss, begin = network(w) if w.classes else (partial(logistic, w.mu), jnp.asarray(w.start))
    data = fedjax.InMemoryFederatedData({client: {"x": w.features[client], "y": w.labels[client]} for client in range(w.clients)})
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        jax.jit(jax.grad(loss)),
        fedjax.optimizers.sgd(w.lr),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=w.batch, num_epochs=w.epochs, skip_shuffle=not w.classes),
    )
    key, cohorts = jax.random.PRNGKey(0), w.cohorts.tolist()

    def start(rounds: int):
        def play():
            state = algorithm.init(begin)
            for number, cohort in enumerate(cohorts[:rounds]):
                keys = jax.random.split(jax.random.fold_in(key, number), len(cohort))
                clients = [(client, rows, key) for (client, rows), key in zip(data.get_clients(cohort), keys, strict=True)]
                state, _ = algorithm.apply(state, clients)
            return np.concatenate([np.ravel(leaf) for leaf in jax.tree_util.tree_leaves(state.params)])

        return play

    return start


if __name__ == "__main__":
    serve(version("fedjax"), prepare)
