"""One of several processes that play runs together: `python -m tests.helpers.peer ADDRESS NUMBER COUNT FOLDER NAME...`."""

import sys
from pathlib import Path

import jax
import numpy as np

import turnout as t
from tests.helpers.examples import ALGORITHMS, ASYNCHRONOUS, small


def runs(names) -> dict[str, np.ndarray]:
    """Return the parameters and the counts of runs, by name, with faults and a sampler that learns; and those of a sweep."""
    learning, found = t.Independent(size=3.0, probability=t.KVib()), {}
    for name in names:
        sampler = learning if name in ("fedavg", "scaffold") else t.Nice(3)
        algorithm = ASYNCHRONOUS[name] if name in ASYNCHRONOUS else ALGORITHMS[name].make(sampler)
        faults = None if name in ASYNCHRONOUS else t.Faults(0.2, "skip")
        trace = t.run(algorithm, small(), rounds=5, faults=faults)
        found[f"{name}.x"], found[f"{name}.counts"] = np.concatenate(jax.tree.leaves(trace.x)), trace.columns["counts"]
    swept = t.sweep(t.Scaffold(t.Nice(3), lr=0.05), small(), {"lr": [0.02, 0.03, 0.05]}, seeds=[0], rounds=3)
    return found | {"sweep.x": np.stack([trace.x for trace in swept.traces])}


if __name__ == "__main__":
    address, number, count, folder, *names = sys.argv[1:]
    jax.distributed.initialize(address, int(count), int(number), heartbeat_timeout_seconds=10)
    # Without a seed its noise and its cohorts depend on the operating system's entropy.
    private = t.Privacy(clip=1.0, noise_multiplier=1.0, delta=1e-5)
    noisy = t.run(t.MbGd(t.Independent(size=3.0), lr=0.05), small(), rounds=3, privacy=private)
    np.savez(Path(folder) / f"{number}.npz", private=noisy.x, **runs(names))
