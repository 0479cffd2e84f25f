"""The tiny problem of the test vectors: four clients with one to four rows of three features."""

import numpy as np

FEATURES = [
    [[1.0, 0.5, -0.5], [0.0, 1.5, 1.0]],
    [[-1.0, 0.5, 2.0], [0.5, -1.0, 0.5], [1.5, 1.0, 0.0]],
    [[2.0, -0.5, 1.0]],
    [[0.5, 0.5, 0.5], [-0.5, 2.0, -1.0], [1.0, -1.5, 0.0], [0.0, 0.5, -1.5]],
]
TARGETS = {
    "squared": [[1.0, -0.5], [2.0, 0.5, -1.0], [-1.5], [0.5, 1.0, -2.0, 1.5]],
    "logistic": [[1, -1], [1, 1, -1], [-1], [1, -1, -1, 1]],
}
WEIGHTS = {"rows": [0.2, 0.3, 0.1, 0.4], "equal": [0.25, 0.25, 0.25, 0.25]}
MU = 0.1
START = np.array([0.5, -1.0, 0.25])
FOUR = np.array([*START, 0.75])
CLIENTS = range(4)


class Tiny:
    """f_i(x) = mean over the rows of (<a, x> - b)^2 / 2, or of log(1 + exp(-b <a, x>)), plus (mu / 2) |x|^2.

    With `constant`, all rows have a fourth feature, 1.
    """

    def __init__(self, loss: str = "squared", weights: str = "equal", constant: bool = False):
        self.loss, self.weights = loss, np.array(WEIGHTS[weights])
        self.a = [np.array([[*row, 1.0] if constant else row for row in rows]) for rows in FEATURES]
        self.b = [np.array(targets, float) for targets in TARGETS[loss]]

    def grad(self, i, x, rows=None):
        """The gradient at x of client i's loss, on some of its rows."""
        a, b = (self.a[i], self.b[i]) if rows is None else (self.a[i][rows], self.b[i][rows])
        slopes = a @ x - b if self.loss == "squared" else -b / (1 + np.exp(b * (a @ x)))
        return a.T @ slopes / len(b) + MU * x

    def value(self, i, x):
        margins = self.a[i] @ x
        losses = (margins - self.b[i]) ** 2 / 2 if self.loss == "squared" else np.log1p(np.exp(-self.b[i] * margins))
        return losses.mean() + MU / 2 * x @ x

    def hessian(self, i, x=START):
        a = self.a[i]
        chance = 1 / (1 + np.exp(-(a @ x)))
        scale = np.ones(len(a)) if self.loss == "squared" else chance * (1 - chance)
        return (a.T * scale) @ a / len(a) + MU * np.eye(3)

    def minimiser(self, i, linear=0.0, weight=0.0, centre=0.0):
        """argmin_w f_i(w) - <linear, w> + (weight / 2) |w - centre|^2 of squared losses."""
        right = self.a[i].T @ self.b[i] / len(self.b[i]) + linear + weight * (centre + np.zeros(3))
        return np.linalg.solve(self.hessian(i) + weight * np.eye(3), right)

    def mean(self, cohort, values):
        """sum_S lambda_i v_i / sum_S lambda_i."""
        shares = self.weights[cohort]
        return sum(share * np.asarray(value) for share, value in zip(shares, values, strict=True)) / shares.sum()

    def total(self, cohort, values):
        """sum_S lambda_i v_i."""
        return sum(self.weights[i] * np.asarray(value) for i, value in zip(cohort, values, strict=True))

    def average(self, cohort, values):
        """sum_S (lambda_i / p_i) v_i for uniform cohorts, p_i = |S| / n."""
        return self.total(cohort, values) * (4 / len(cohort))

    def steps(self, i, x, lr, count, direction=None, batches=None):
        """x after local steps y <- y - lr d(y), d = grad f_i by default."""
        y = x
        for k in range(count):
            rows = None if batches is None else batches[k]
            y = y - lr * (self.grad(i, y, rows) if direction is None else direction(y))
        return y

    def described(self):
        """The problem as the files have it."""
        clients = [{"features": a.tolist(), "targets": b} for a, b in zip(self.a, TARGETS[self.loss], strict=True)]
        return {"loss": self.loss, "mu": MU, "weights": self.weights.tolist(), "clients": clients}


class Log:
    """What a program did: its start, and for each round the exchanges and the states at the end."""

    def __init__(self):
        self.first, self.rounds, self._exchanges = {}, [], []

    def start(self, server, clients=None):
        self.first = {"server": plain(server)} | ({} if clients is None else {"clients": plain(clients)})

    def exchange(self, to, message, replies, **further):
        """Note a message (a list of them if they differ from client to client) and the replies, in the order of `to`."""
        key = "messages" if isinstance(message, list) else "message"
        self._exchanges.append(plain({"to": list(to), **further, key: message, "replies": list(replies)}))

    def end(self, cohort, server, clients=None, **draws):
        """Note the states after a round."""
        round = {"cohort": list(cohort)} | ({"draws": draws} if draws else {})
        round |= {"exchanges": self._exchanges, "server": server} | ({} if clients is None else {"clients": clients})
        self.rounds.append(plain(round))
        self._exchanges = []


def plain(value):
    """Numbers, lists and dicts in the place of arrays."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    # Minus zero is zero.
    return value.item() + 0 if isinstance(value, np.generic) else value + 0 if isinstance(value, float) else value
