"""Why FedAvg takes fewer rounds here than its paper prints: those of the 2NN to 97 % test accuracy, one thing changed at a time.

The cells are those of table 1 with i.i.d. clients, E = 1 and B = 10: one client a round, and ten of 100.
"""

from collections.abc import Callable

import jax
import numpy as np
from jax.nn.initializers import glorot_uniform, truncated_normal

import turnout as t
from benchmarks.timing import Line
from turnout.data import Dataset, IidSplit, load

PRINTED = {1: 316, 10: 87}
"""Rounds that the paper prints, by the clients of a round."""

SEEDS = range(3)
ROUNDS = 500
LR = 0.1


def measure() -> list[Line]:
    """Return the median rounds with each change, over those that the paper prints."""
    data, test = load("mnist"), load("mnist.t")
    lines = []
    for clients, printed in PRINTED.items():
        for change, (lr, shift, first) in CHANGES.items():
            problem, held_out = two_layers(data, shift), two_layers(test, shift)
            rounds = [played(problem, held_out, clients, lr, first, seed) for seed in SEEDS]
            middle = float(np.median(rounds))
            note = f"{middle:g} rounds ({', '.join(f'{count:g}' for count in rounds)}), printed {printed}"
            what = f"FedAvg, {clients} of 100, {change}: rounds over the paper's"
            settings = {"clients": clients, "lr": lr, "seeds": [*SEEDS], "rounds": rounds}
            measured = middle / printed if np.isfinite(middle) else None
            lines.append(Line("fedavg-rounds", what, measured, note=note, settings=settings))
    return lines


def two_layers(data: Dataset, shift: float) -> t.Neural:
    """Return the 2NN on the rows of 100 clients, with `shift` taken from each pixel, which is from 0 to 1."""
    pixels = np.asarray(data.features, "float32").reshape(len(data.labels), -1) / np.float32(255)
    rows = Dataset(data.name, pixels - np.float32(shift), data.labels)
    return t.Neural.of(rows, IidSplit(clients=100).split(rows), "mcmahan-2nn")


def played(problem: t.Neural, test: t.Neural, clients: int, lr: float, first: Callable | None, seed: int) -> float:
    """Return the rounds to 97 % test accuracy; infinity where there are more than `ROUNDS`."""
    start, key = problem.start(jax.random.key(seed)), jax.random.key(100 + seed)
    algorithm = t.FedAvg(t.Nice(clients), lr=lr, batch=10, epochs=1)
    options = {"test": test, "metrics": ("test_accuracy",), "target": t.Target("test_accuracy", below=0.03)}
    options["start"] = start if first is None else drawn_anew(start, first, key)
    cost = t.run(algorithm, problem, rounds=ROUNDS, seed=seed, **options).cost(t.Exchanges())
    return np.inf if cost is None else cost


def drawn_anew(network, first: Callable, key):
    """Return the network with weights that `first` draws from a key and their shape, and with biases of zero."""
    leaves, structure = jax.tree.flatten(network)
    keys = jax.random.split(key, len(leaves))
    drawn = [first(one, leaf.shape) if leaf.ndim == 2 else 0 * leaf for one, leaf in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, [new.astype(old.dtype) for new, old in zip(drawn, leaves, strict=True)])


# The truncated normal weights are those of TensorFlow's tutorials of that time, those of Glorot its default.
CHANGES = {
    "as published": (LR, 0.0, None),
    "a step size of 0.046": (LR * 10 ** (-1 / 3), 0.0, None),
    "a step size of 0.22": (LR * 10 ** (1 / 3), 0.0, None),
    "first weights of Glorot": (LR, 0.0, glorot_uniform()),
    "first weights from a truncated normal variable": (LR, 0.0, truncated_normal(0.1)),
    "pixels from -0.5 to 0.5": (LR, 0.5, None),
}
