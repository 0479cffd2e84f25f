"""The kinds that configurations name, and their classes."""

import dataclasses
from pathlib import Path

from turnout import client_solvers, codecs, data, devices, estimators, optimisers, samplers, solvers
from turnout.core import robust_means
from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError, unknown
from turnout.core.named_class import name_of, named_class
from turnout.experiment import problem_specs
from turnout.experiment.kinds import Kinds
from turnout.optimisers import schedules
from turnout.samplers import probabilities

FIRST_ORDER = {
    "adagrad": "optimisers:Adagrad",
    "adam": "optimisers:Adam",
    "adamw": "optimisers:AdamW",
    "apollo": "optimisers:Apollo",
    "dadapt-adamw": "optimisers:DAdaptAdamW",
    "fedadagrad": "optimisers:FedAdagrad",
    "fedadam": "optimisers:FedAdam",
    "fedyogi": "optimisers:FedYogi",
    "muon": "optimisers:Muon",
    "prodigy": "optimisers:Prodigy",
    "sgd": "optimisers:Sgd",
}

CODECS = {
    "identity": "codecs:Identity",
    "cast": "codecs:Cast",
    "eigenpairs": "codecs:Eigenpairs",
    "low-rank": "codecs:LowRank",
    "natural": "codecs:Natural",
    "qsgd": "codecs:Qsgd",
    "rand-k": "codecs:RandK",
    "sign": "codecs:Sign",
    "top-k": "codecs:TopK",
}

SOURCES = {
    "leaf": "data:Leaf",
    "tff": "data:Tff",
    "hdf5": "data:Hdf5",
    "csv": "data:Csv",
    "libsvm": "data:Libsvm",
    "parquet": "data:Parquet",
    "clients": "data:ClientFile",
    "hugging-face": "data:HuggingFace",
}

CLASSES = {
    "problem": {
        "logistic": "experiment.problem_specs:LogisticSpec",
        "multinomial": "experiment.problem_specs:MultinomialSpec",
        "ridge": "experiment.problem_specs:RidgeSpec",
        "network": "experiment.problem_specs:NetworkSpec",
        "neural": "experiment.problem_specs:NeuralSpec",
        "model": "experiment.model_spec:ModelSpec",
        "language-model": "experiment.language_specs:LanguageModelSpec",
        "text-classifier": "experiment.language_specs:TextClassifierSpec",
        "log-sum": "experiment.problem_specs:LogSumSpec",
        "chain": "experiment.problem_specs:ChainSpec",
        "remote": "experiment.remote_spec:RemoteSpec",
    },
    "data": SOURCES,
    "test": SOURCES,
    "split": {
        "kmeans": "data.splits:KMeansSplit",
        "sorted": "data.splits:SortedSplit",
        "shards": "data.splits:ShardsSplit",
        "contiguous": "data.splits:ContiguousSplit",
        "iid": "data.splits:IidSplit",
        "dirichlet": "data.splits:DirichletSplit",
        "two-classes": "data.splits:TwoClassSplit",
        "labels": "data.splits:LabelsSplit",
        "natural": "data.splits:NaturalSplit",
        "thinned": "data.splits:ThinnedSplit",
        "power": "data.splits:PowerSplit",
        "log-normal": "data.splits:LogNormalSplit",
        "flwr": "data.splits:FlwrSplit",
    },
    "sampler": {
        "full": "samplers:Full",
        "nice": "samplers:Nice",
        "shuffled-nice": "samplers:ShuffledNice",
        "nonuniform": "samplers:NonUniform",
        "importance": "samplers:Importance",
        "independent": "samplers:Independent",
        "replacement": "samplers:WithReplacement",
        "des-raj": "samplers:DesRaj",
        "systematic": "samplers:Systematic",
        "pivotal": "samplers:Pivotal",
        "cube": "samplers:Cube",
        "block": "samplers:Block",
        "stratified": "samplers:Stratified",
        "shuffled-stratified": "samplers:ShuffledStratified",
        "clustered": "samplers:Clustered",
        "subsets": "samplers:Subsets",
        "delegate": "samplers:Delegate",
        "power-of-choice": "samplers:PowerOfChoice",
        "afl": "samplers:Afl",
        "oort": "samplers:Oort",
        "divfl": "samplers:DivFl",
        "available": "samplers:Available",
        "adaptive-size": "samplers:AdaptiveSize",
    },
    "probability": {
        "uniform": "samplers.probabilities:Uniform",
        "size": "samplers.probabilities:BySize",
        "delta": "samplers.probabilities:Delta",
        "drift": "samplers.probabilities:Drift",
        "k-vib": "samplers.probabilities:KVib",
        "vrb": "samplers.probabilities:Vrb",
        "mabs": "samplers.probabilities:Mabs",
        "avare": "samplers.probabilities:Avare",
        "osmd": "samplers.probabilities:Osmd",
        "a-osmd": "samplers.probabilities:AOsmd",
        "last-norm": "samplers.probabilities:LastNorm",
        "optimal": "samplers.probabilities:Optimal",
        "aocs": "samplers.probabilities:Aocs",
        "smoothness": "samplers.probabilities:BySmoothness",
    },
    "algorithm": {
        "5gcs": "algorithms:FiveGcs",
        "acc-s-dane": "algorithms:AccSDane",
        "accfeddcd": "algorithms:AccFedDcd",
        "adacomm": "algorithms:AdaComm",
        "adiana": "algorithms:Adiana",
        "agnostic-fl": "algorithms:AgnosticFl",
        "aide": "algorithms:Aide",
        "amplified-fedavg": "algorithms:AmplifiedFedAvg",
        "amplified-scaffold": "algorithms:AmplifiedScaffold",
        "apfl": "algorithms:Apfl",
        "bl1": "algorithms:Bl1",
        "bl2": "algorithms:Bl2",
        "catalyzed-svrp": "algorithms:CatalyzedSvrp",
        "ce-lgd": "algorithms:CeLgd",
        "clag": "algorithms:Clag",
        "diloco": "algorithms:DiLoCo",
        "dane": "algorithms:Dane",
        "dasha": "algorithms:Dasha",
        "diana": "algorithms:Diana",
        "disco": "algorithms:Disco",
        "ditto": "algorithms:Ditto",
        "easgd": "algorithms:Easgd",
        "ef21": "algorithms:Ef21",
        "ef21-muon": "algorithms:Ef21Muon",
        "ef-bv": "algorithms:EfBv",
        "fedac": "algorithms:FedAc",
        "fedasync": "algorithms:FedAsync",
        "fedavg": "algorithms:FedAvg",
        "fedavg-sppm": "algorithms:FedAvgSppm",
        "fedbabu": "algorithms:FedBabu",
        "fedbn": "algorithms:FedBn",
        "fedbuff": "algorithms:FedBuff",
        "fedcm": "algorithms:FedCm",
        "feddcd": "algorithms:FedDcd",
        "feddisco": "algorithms:FedDisco",
        "feddyn": "algorithms:FedDyn",
        "fedexp": "algorithms:FedExp",
        "fedexprox": "algorithms:FedExProx",
        "fedgloss": "algorithms:FedGloSs",
        "fedlamb": "algorithms:FedLamb",
        "fedlin": "algorithms:FedLin",
        "fedmuon": "algorithms:FedMuon",
        "fednl": "algorithms:FedNl",
        "fednl-bc": "algorithms:FedNlBc",
        "fednl-cr": "algorithms:FedNlCr",
        "fednl-ls": "algorithms:FedNlLs",
        "fednl-pp": "algorithms:FedNlPp",
        "fednova": "algorithms:FedNova",
        "fedopt": "algorithms:FedOpt",
        "fedpage": "algorithms:FedPage",
        "fedper": "algorithms:FedPer",
        "fedprox": "algorithms:FedProx",
        "fedprox-sppm": "algorithms:FedProxSppm",
        "fedred": "algorithms:FedRed",
        "fedrep": "algorithms:FedRep",
        "fedsam": "algorithms:FedSam",
        "fedsophia": "algorithms:FedSophia",
        "fedspeed": "algorithms:FedSpeed",
        "fedvarp": "algorithms:FedVarp",
        "flix": "algorithms:Flix",
        "gd": "algorithms:Gd",
        "gradskip": "algorithms:GradSkip",
        "gradskip-plus": "algorithms:GradSkipPlus",
        "icgm": "algorithms:Icgm",
        "in-hubs": "algorithms:InHubs",
        "l2gd": "algorithms:L2gd",
        "lazy-dane": "algorithms:LazyDane",
        "locodl": "algorithms:LoCoDl",
        "marina": "algorithms:Marina",
        "mbgd": "algorithms:MbGd",
        "mblocalgd": "algorithms:MbLocalGd",
        "mifa": "algorithms:Mifa",
        "mime": "algorithms:Mime",
        "mimelite": "algorithms:MimeLite",
        "mimemvr": "algorithms:MimeMvr",
        "pfedme": "algorithms:PFedMe",
        "point-saga": "algorithms:PointSaga",
        "proxskip-vr": "algorithms:ProxSkipVr",
        "q-fedavg": "algorithms:QFedAvg",
        "randprox": "algorithms:RandProx",
        "rescaled-asgd": "algorithms:RescaledAsgd",
        "ringleader": "algorithms:Ringleader",
        "ringmaster": "algorithms:Ringmaster",
        "s-dane": "algorithms:SDane",
        "sa-pef": "algorithms:SaPef",
        "saber-full": "algorithms:SaberFull",
        "saber-partial": "algorithms:SaberPartial",
        "scafflix": "algorithms:Scafflix",
        "scaffnew": "algorithms:Scaffnew",
        "scaffold": "algorithms:Scaffold",
        "scaffold-m": "algorithms:ScaffoldM",
        "scaffold-sag": "algorithms:ScaffoldSag",
        "shed": "algorithms:Shed",
        "sppm": "algorithms:Sppm",
        "streaming-diloco": "algorithms:StreamingDiLoCo",
        "svrp": "algorithms:Svrp",
        "tamuna": "algorithms:Tamuna",
    },
    "estimator": {
        "exact": "estimators:Exact",
        "saga": "estimators:Saga",
        "sag": "estimators:Sag",
        "svrg": "estimators:Svrg",
        "rg-saga": "estimators:RgSaga",
        "rg-svrg": "estimators:RgSvrg",
        "sarah": "estimators:Sarah",
        "zerosarah": "estimators:ZeroSarah",
        "storm": "estimators:Storm",
    },
    "delegate": {
        "delegate": "samplers:Delegate",
        "nice": "samplers:Nice",
        "nonuniform": "samplers:NonUniform",
    },
    "solver": {
        "gd": "solvers:GradientDescent",
        "agd": "solvers:AcceleratedGradient",
        "cg": "solvers:ConjugateGradient",
        "bfgs": "solvers:Bfgs",
        "lbfgs": "solvers:Lbfgs",
        "newton": "solvers:Newton",
        "aicn": "solvers:Aicn",
        "scaffnew": "solvers:Scaffnew",
        "localgd": "solvers:LocalGd",
        "giant": "solvers:Giant",
        "localnewton": "solvers:LocalNewton",
        "sketch": "solvers:SketchedNewton",
        "descent": "solvers:FirstOrder",
        "fedlamb": "algorithms:FedLamb",
        "fedopt": "algorithms:FedOpt",
        "fedspeed": "algorithms:FedSpeed",
        "mime": "algorithms:Mime",
        "mimelite": "algorithms:MimeLite",
    },
    "local solver": {
        "adam": "client_solvers:Adam",
        "bfgs": "client_solvers:Bfgs",
        "gradient": "client_solvers:Gradient",
        "lbfgs": "client_solvers:Lbfgs",
        "newton-cg": "client_solvers:NewtonCg",
        "per-class": "client_solvers:PerClass",
        "sgd": "client_solvers:Sgd",
        "stochastic": "client_solvers:Stochastic",
        "svrg": "client_solvers:Svrg",
    },
    "aggregation": {
        "median": "core.robust_means:CoordinateMedian",
        "trimmed-mean": "core.robust_means:TrimmedMean",
        "geometric-median": "core.robust_means:GeometricMedian",
        "centred-clipping": "core.robust_means:CentredClipping",
        "krum": "core.robust_means:Krum",
    },
    "optimiser": {**FIRST_ORDER, "oasis": "optimisers:Oasis"},
    "server_optimiser": FIRST_ORDER,
    "schedule": {
        "inverse": "optimisers.schedules:Inverse",
        "exponential": "optimisers.schedules:Exponential",
        "step": "optimisers.schedules:Step",
        "cosine": "optimisers.schedules:Cosine",
        "warm-up": "optimisers.schedules:WarmUp",
    },
    "codec": CODECS,
    "up": CODECS,
    "down": CODECS,
    "own_codec": CODECS,
    "spread": {"log-normal": "devices:LogNormal", "classes": "devices:Classes"},
    "price": {
        "exchanges": "accounting.prices:Exchanges",
        "hierarchical": "accounting.prices:Hierarchical",
        "selection": "accounting.prices:Selection",
        "bytes": "accounting.prices:Bytes",
        "seconds": "accounting.prices:Seconds",
        "clock": "accounting.prices:Clock",
        "linear": "accounting.prices:LinearPrice",
    },
}
"""Module and class of each kind, by table."""

TABLES = {table: Kinds(places) for table, places in CLASSES.items()}
"""The class of each kind, by table.

A field is filled from a table if its name is the last word of the table's name and one of the classes fits its type. Fields whose
type is a spread are filled from "spread", whatever their names.
"""


BASES: dict[str, tuple[type, ...]] = {
    "problem": (problem_specs.DataSpec,),
    "data": (data.Source,),
    "test": (data.Source,),
    "sampler": (samplers.Sampler,),
    "probability": (probabilities.Probability,),
    "algorithm": (Algorithm,),
    "estimator": (estimators.Estimator,),
    "delegate": (samplers.Sampler,),
    "solver": (solvers.CohortSolver, Algorithm),
    "local solver": (client_solvers.LocalSolver,),
    "aggregation": (robust_means.RobustMean,),
    "optimiser": (optimisers.Optimiser,),
    "server_optimiser": (optimisers.Optimiser,),
    "schedule": (schedules.Schedule,),
    "codec": (codecs.Codec,),
    "up": (codecs.Codec,),
    "down": (codecs.Codec,),
    "own_codec": (codecs.Codec,),
    "spread": (devices.Spread,),
}
"""What a class of the user's own extends, by table."""

METHODS = {"problem": ("build", "split"), "split": ("split",), "price": ("cost", "label", "unit")}
"""What a class of the user's own has, if it does not extend one of `BASES`."""


def class_of(table: str, kind: str, folder: Path) -> type:
    """Return the class of the `kind` in a `table`; `UserError` where there is none.

    Args:
        table: The name of the table, one of `TABLES`.
        kind: A name in it, or "package.module:Class" or "file.py:Class" for a class of the user's own.
        folder: Where such files are looked up.
    """
    if ":" not in kind:
        if kind not in TABLES[table]:
            raise unknown(f"{table} kind", kind, TABLES[table])
        return TABLES[table][kind]
    cls = named_class(kind, folder)
    bases, methods = BASES.get(table, ()), METHODS.get(table, ())
    if not issubclass(cls, bases) and not (methods and all(hasattr(cls, method) for method in methods)):
        needed = [f"extend {base.__name__}" for base in bases] + ([f"have {', '.join(methods)}"] if methods else [])
        raise UserError(f"{kind} is no {table}: it must {' or '.join(needed)}")
    if "__dataclass_fields__" not in vars(cls):
        raise UserError(f"{kind} is no record: decorate the class with @turnout.record")
    return cls


def fields_of(value) -> tuple[str, dict]:
    """Return the kind of the record `value`, and its fields that configurations show; those of a wrapped record are its own."""
    shown = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.repr and f.name != "kind"}
    if not isinstance(value, solvers.AsCohortSolver):
        return kind_of(value), shown
    kind, inner = fields_of(shown.pop(value.wraps))
    return kind, shown | {name: part for name, part in inner.items() if name not in UNUSED}


UNUSED = ("sampler", "schedule")
"""The fields of an algorithm that have no meaning where it is a cohort solver."""


def kind_of(value) -> str:
    """Return the kind of which `value` is; of a class of the user's own the name under which it is found."""
    known = filter(None, (kinds.kind_of(type(value)) for kinds in TABLES.values()))
    return next(known, None) or name_of(type(value))
