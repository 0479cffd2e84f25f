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
        "shuffled-nice": samplers.ShuffledNice,
        "nonuniform": samplers.NonUniform,
        "importance": samplers.Importance,
        "independent": samplers.Independent,
        "block": samplers.Block,
        "stratified": samplers.Stratified,
        "shuffled-stratified": samplers.ShuffledStratified,
        "subsets": samplers.Subsets,
        "delegate": samplers.Delegate,
    },
    "algorithm": {
        "fedavg": algorithms.FedAvg,
        "fedavg-sppm": algorithms.FedAvgSppm,
        "fedprox-sppm": algorithms.FedProxSppm,
        "mbgd": algorithms.MbGd,
        "mblocalgd": algorithms.MbLocalGd,
        "sppm": algorithms.Sppm,
    },
    "solver": {
        "gd": solvers.GradientDescent,
        "agd": solvers.AcceleratedGradient,
        "cg": solvers.ConjugateGradient,
        "bfgs": solvers.Bfgs,
        "lbfgs": solvers.Lbfgs,
        "newton": solvers.Newton,
        "aicn": solvers.Aicn,
        "scaffnew": solvers.Scaffnew,
        "localgd": solvers.LocalGd,
        "localnewton": solvers.LocalNewton,
        "sketch": solvers.Sketch,
    },
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
