"""The names that configurations use, and what they stand for."""

from turnout import algorithms, prices, samplers, solvers
from turnout.data import splits
from turnout.experiment import problems
from turnout.samplers import probabilities
from turnout.solvers import own

TABLES = {
    "problem": {
        "logistic": problems.LogisticSpec,
        "multinomial": problems.MultinomialSpec,
        "ridge": problems.RidgeSpec,
        "network": problems.NetworkSpec,
        "chain": problems.ChainSpec,
    },
    "split": {
        "kmeans": splits.KMeansSplit,
        "sorted": splits.SortedSplit,
        "contiguous": splits.ContiguousSplit,
        "iid": splits.IidSplit,
        "dirichlet": splits.DirichletSplit,
        "two-classes": splits.TwoClassSplit,
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
        "replacement": samplers.WithReplacement,
        "des-raj": samplers.DesRaj,
        "systematic": samplers.Systematic,
        "pivotal": samplers.Pivotal,
        "cube": samplers.Cube,
        "block": samplers.Block,
        "stratified": samplers.Stratified,
        "shuffled-stratified": samplers.ShuffledStratified,
        "subsets": samplers.Subsets,
        "delegate": samplers.Delegate,
        "power-of-choice": samplers.PowerOfChoice,
        "afl": samplers.Afl,
        "available": samplers.Available,
    },
    "probability": {
        "uniform": probabilities.Uniform,
        "size": probabilities.BySize,
        "drift": probabilities.Drift,
        "k-vib": probabilities.KVib,
        "vrb": probabilities.Vrb,
        "mabs": probabilities.Mabs,
        "avare": probabilities.Avare,
        "osmd": probabilities.Osmd,
        "a-osmd": probabilities.AOsmd,
        "last-norm": probabilities.LastNorm,
        "optimal": probabilities.Optimal,
    },
    "algorithm": {
        "accfeddcd": algorithms.AccFedDcd,
        "fedavg": algorithms.FedAvg,
        "fedavg-sppm": algorithms.FedAvgSppm,
        "feddcd": algorithms.FedDcd,
        "fedprox": algorithms.FedProx,
        "fedprox-sppm": algorithms.FedProxSppm,
        "fedvarp": algorithms.FedVarp,
        "mbgd": algorithms.MbGd,
        "mblocalgd": algorithms.MbLocalGd,
        "point-saga": algorithms.PointSaga,
        "scaffold": algorithms.Scaffold,
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
    "local solver": {
        "adam": own.Adam,
        "bfgs": own.Bfgs,
        "gradient": own.Gradient,
        "lbfgs": own.Lbfgs,
        "newton-cg": own.NewtonCg,
        "per-class": own.PerClass,
        "sgd": own.Sgd,
        "svrg": own.Svrg,
    },
    "price": {
        "rounds": prices.Rounds,
        "hierarchical": prices.Hierarchical,
        "selection": prices.Selection,
        "bytes": prices.Bytes,
        "seconds": prices.Seconds,
    },
}
"""For each table with a `kind`: what each kind builds. Which table a field may be is told by the last word and the classes."""


def kind_of(value) -> str:
    """Return the name under which the class of `value` is listed."""
    return next(kind for kinds in TABLES.values() for kind, cls in kinds.items() if type(value) is cls)
