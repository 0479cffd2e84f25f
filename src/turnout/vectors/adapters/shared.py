"""What the programs share that play test vectors with another package; turnout is not there.

    python play_NAME.py IN.json OUT.json

IN is {"vectors": {name: vector}}. OUT is {"played": {name: ...}, "absent": why the package has no other algorithm}, where ...
is {"rounds": [...], "note": ...}, with rounds in the form of the vectors, or {"cannot": why}, or {"unheld": true} of what the
package has and nothing here plays yet.
"""

import json
import sys
import traceback
from pathlib import Path

import numpy as np


def main(players: dict, absent: str, unheld: tuple[str, ...] = ()) -> None:
    """Play the vectors that have players; OUT is written after each one.

    Args:
        players: What plays a vector, by its name.
        absent: Why the package has no other algorithm.
        unheld: Vectors of algorithms that the package has, and that nothing here plays yet.
    """
    given, out = map(Path, sys.argv[1:3])
    vectors, played = json.loads(given.read_text())["vectors"], {name: {"unheld": True} for name in unheld}
    out.write_text(json.dumps({"played": played, "absent": absent}))
    for name, player in players.items():
        try:
            played[name] = player(vectors[name])
        except Exception as error:  # One algorithm that fails leaves the others.
            traceback.print_exc()
            played[name] = {"cannot": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        out.write_text(json.dumps({"played": played, "absent": absent}))


class Client:
    """A client's rows, and the gradient of its loss in NumPy."""

    def __init__(self, vector: dict, number: int):
        own = vector["problem"]["clients"][number]
        self.number, self.mu, self.loss = number, vector["problem"]["mu"], vector["problem"]["loss"]
        self.features, self.targets = np.array(own["features"]), np.array(own["targets"], float)

    def __len__(self):
        return len(self.targets)

    def gradient(self, x):
        a, b = self.features, self.targets
        slopes = a @ x - b if self.loss == "squared" else -b / (1 + np.exp(b * (a @ x)))
        return a.T @ slopes / len(b) + self.mu * x

    def value(self, x):
        """The loss, which is squared."""
        return float(np.mean((self.features @ x - self.targets) ** 2) / 2 + self.mu / 2 * x @ x)


def clients_of(vector: dict) -> list[Client]:
    """Return all clients of a vector."""
    return [Client(vector, number) for number in range(len(vector["problem"]["clients"]))]


def start_of(vector: dict):
    """Return the first parameters."""
    return np.array(vector["start"]["server"]["x"])


def cohorts_of(vector: dict) -> list:
    """Return the clients of each round."""
    return [round["cohort"] for round in vector["rounds"]]
