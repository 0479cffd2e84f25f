"""Problems, splits, targets and prices of the planner's benchmark: none of them chose what the planner does."""

from turnout.accounting.prices import Exchanges, LinearPrice, Price, Selection
from turnout.planner.task import Limits, Task, task_of

PRICES: dict[str, Price] = {
    "exchanges": Exchanges(),
    "contacts": LinearPrice(contacts=1.0),
    "mixed": LinearPrice(exchanges=1.0, contacts=0.1, queries_slowest=0.01),
    "selections": Selection(arbitrary=5.0),
}

ROUNDS = 200
"""The most rounds of a run."""

KMEANS = {"kind": "kmeans", "clusters": 5, "clients_per_cluster": 4}
DIRICHLET = {"kind": "dirichlet", "clients": 20, "concentration": 0.3, "seed": 3}
SORTED = {"kind": "sorted", "clients": 20}
IID = {"kind": "iid", "clients": 20, "seed": 3}

CANCER = {"kind": "logistic", "data": "breast_cancer", "mu": 0.1, "normalize": "columns"}
WINE = {"kind": "multinomial", "data": "wine", "mu": 0.05, "normalize": "columns"}
DIABETES = {"kind": "ridge", "data": "diabetes", "mu": 0.05, "normalize": "columns"}
NETWORK = {"kind": "network", "data": "wine", "hidden": 8, "mu": 0.001, "normalize": "columns"}


def case(problem: dict, split: dict, metric: str, below: float) -> dict:
    """Return the tables of a problem, its split and its target."""
    return {"problem": problem, "split": split, "target": {"metric": metric, "below": below}, "run": {"rounds": ROUNDS}}


PROBLEMS = {
    "logistic, k-means": case(CANCER, KMEANS, "distance", 0.005),
    "logistic, Dirichlet": case(CANCER, DIRICHLET, "distance", 0.005),
    "logistic, sorted": case(CANCER, SORTED, "distance", 0.005),
    "multinomial, Dirichlet": case(WINE, {**DIRICHLET, "concentration": 1.0}, "distance", 0.01),
    "multinomial, i.i.d.": case(WINE, IID, "distance", 0.01),
    "multinomial, sorted": case(WINE, SORTED, "distance", 0.01),
    "ridge, i.i.d.": case(DIABETES, IID, "gap", 1.0),
    "ridge, sorted": case(DIABETES, SORTED, "gap", 1.0),
    "not convex, k-means": case({**CANCER, "alpha": 0.05, "mu": 0.0}, KMEANS, "gradient", 0.003),
    "not convex, sorted": case({**CANCER, "alpha": 0.05, "mu": 0.0}, SORTED, "gradient", 0.003),
    "network, i.i.d.": case(NETWORK, IID, "value", 0.1),
    "network, Dirichlet": case(NETWORK, {**DIRICHLET, "concentration": 1.0}, "value", 0.1),
}


def task(name: str, price: Price) -> Task:
    """Return the planning task of a problem at a price."""
    return task_of(PROBLEMS[name], (price,), Limits(), name)
