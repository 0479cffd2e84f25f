"""The names that configurations use, and what they stand for."""

from turnout import algorithms, prices, samplers, solvers
from turnout.data import splits
from turnout.experiment import problems

TABLES = {
    "problem": {"logistic": problems.LogisticSpec, "ridge": problems.RidgeSpec, "network": problems.NetworkSpec},
    "split": {
        "kmeans": splits.KMeansSplit,
        "sorted": splits.SortedSplit,
        "contiguous": splits.ContiguousSplit,
        "iid": splits.IidSplit,
        "dirichlet": splits.DirichletSplit,
        "natural": splits.NaturalSplit,
        "power": splits.PowerSplit,
    },
    "sampler": {
        "full": samplers.Full,
        "nice": samplers.Nice,
        "independent": samplers.Independent,
        "stratified": samplers.Stratified,
        "delegate": samplers.Delegate,
    },
    "algorithm": {
        "fedavg": algorithms.FedAvg,
        "mbgd": algorithms.MbGd,
        "mblocalgd": algorithms.MbLocalGd,
        "sppm": algorithms.Sppm,
    },
    "solver": {"gd": solvers.GradientDescent, "agd": solvers.AcceleratedGradient, "bfgs": solvers.Bfgs},
    "price": {
        "rounds": prices.Rounds,
        "hierarchical": prices.Hierarchical,
        "selection": prices.Selection,
        "bytes": prices.Bytes,
        "seconds": prices.Seconds,
    },
}
"""For each table with a `kind`: what each kind builds."""


def kind_of(table: str, value) -> str:
    """Return the name under which the class of `value` is listed in `table`."""
    return next(kind for kind, cls in TABLES[table].items() if type(value) is cls)
