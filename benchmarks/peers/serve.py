"""How the program of a peer is told what to play: numbers of rounds come in, seconds and parameters go out, as lines of JSON.

It runs in environments that have nothing of this project, so that it needs NumPy alone.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Workload:
    """What every peer trains: features [n, s, d], labels [n, s], cohorts [rounds, m], the start, and the settings.

    With `classes` it is the network `femnist-cnn` on square images in bytes, its parameters in the order of PyTorch; without,
    logistic regression with labels -1 and 1 and no intercept.
    """

    features: np.ndarray
    labels: np.ndarray
    cohorts: np.ndarray
    start: np.ndarray
    lr: float
    epochs: int
    batch: int
    mu: float
    classes: int = 0

    @classmethod
    def read(cls, path: str) -> "Workload":
        with np.load(path) as file:
            return cls(**{name: file[name] if file[name].ndim else file[name].item() for name in file.files})

    def write(self, path: str) -> None:
        np.savez(path, **vars(self))

    @property
    def clients(self) -> int:
        return len(self.features)

    @property
    def cohort(self) -> int:
        return self.cohorts.shape[1]


Start = Callable[..., Callable[[], np.ndarray]]
"""A function that gets ready for a run of some rounds from the start, and returns what plays it and returns the parameters."""


def serve(version: str, prepare: Callable[[Workload], Start]) -> None:
    """Play runs as the lines of the standard input say; whatever a library prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start = prepare(Workload.read(sys.argv[1]))
    for line in sys.stdin:
        play = start(**json.loads(line))
        began = time.perf_counter()
        x = play()
        seconds = time.perf_counter() - began
        np.save(sys.argv[2], np.asarray(x).ravel())
        print(json.dumps({"seconds": seconds, "version": version}), file=answers, flush=True)
