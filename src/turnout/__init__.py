"""turnout: federated optimization that counts what communication costs.

`run` and `sweep` run an algorithm on a problem, `study` compares methods, and `plan` finds the cheapest; `__all__` lists the
public names. `client_solvers`, `codecs`, `devices`, `optimisers`, `schedules`, `solvers` and `trackers` are modules of parts.
`TorchOracle`, `parameters_of` and `set_parameters` import PyTorch when they are first used.
"""

from typing import TYPE_CHECKING

from turnout import client_solvers, codecs, devices, optimisers, solvers
from turnout.accounting.prices import Bytes, Clock, Exchanges, Hierarchical, LinearPrice, Seconds, Selection
from turnout.accounting.target import Target
from turnout.algorithms import (
    AccFedDcd,
    AccSDane,
    CatalyzedSvrp,
    CeLgd,
    Diana,
    DiLoCo,
    Ef21,
    FedAsync,
    FedAvg,
    FedAvgSppm,
    FedBuff,
    FedDcd,
    FedDyn,
    FedExProx,
    FedLamb,
    FedOpt,
    FedProx,
    FedProxSppm,
    FedRed,
    FedSpeed,
    FedVarp,
    FiveGcs,
    Gd,
    Icgm,
    LazyDane,
    LoCoDl,
    Marina,
    MbGd,
    MbLocalGd,
    Mifa,
    Mime,
    MimeLite,
    MimeMvr,
    PointSaga,
    Ringleader,
    Ringmaster,
    SaberFull,
    SaberPartial,
    Scaffnew,
    Scaffold,
    ScaffoldSag,
    SDane,
    Sppm,
    Svrp,
    Tamuna,
)
from turnout.codecs import Codec, Exchange
from turnout.core.algorithm import Algorithm, Ask, on_client
from turnout.core.client import Client, Done
from turnout.core.cohort import Cohort
from turnout.core.errors import UserError
from turnout.core.messages import Each
from turnout.core.records import record, static
from turnout.core.replies import Replies
from turnout.core.robust_means import CentredClipping, CoordinateMedian, GeometricMedian, Krum, TrimmedMean
from turnout.core.seeds import Seeds
from turnout.devices import Devices
from turnout.engines.faults import Faults
from turnout.estimators import Estimator, Exact, RgSaga, RgSvrg, Sag, Saga, Sarah, Storm, Svrg, ZeroSarah
from turnout.io.models import load_model
from turnout.optimisers import schedules
from turnout.privacy.mechanism import Privacy
from turnout.problems import Chain, Logistic, Multinomial, Network, Neural, Quadratic, Remote, Ridge
from turnout.problems.base import Population, Problem
from turnout.problems.oracles import NumpyOracle, Oracle
from turnout.runs import trackers
from turnout.runs.api import run, sweep
from turnout.runs.callbacks import BestParameters, Callback, EarlyStopping
from turnout.runs.sweep import Sweep
from turnout.runs.trace import Trace
from turnout.samplers import (
    AdaptiveSize,
    Afl,
    Available,
    Block,
    Cube,
    Delegate,
    DesRaj,
    Full,
    Importance,
    Independent,
    Nice,
    NonUniform,
    Pivotal,
    PowerOfChoice,
    Sampler,
    ShuffledNice,
    ShuffledStratified,
    Stratified,
    Subsets,
    Systematic,
    WithReplacement,
)
from turnout.samplers.probabilities import (
    AOsmd,
    Avare,
    BySize,
    Drift,
    KVib,
    LastNorm,
    Mabs,
    Optimal,
    Osmd,
    Probability,
    Uniform,
    Vrb,
)
from turnout.solvers import CohortSolver

if TYPE_CHECKING:
    from turnout.planner.api import plan as plan
    from turnout.planner.plan import Plan as Plan
    from turnout.problems.oracles.torch_module import TorchOracle as TorchOracle
    from turnout.problems.oracles.torch_module import parameters_of as parameters_of
    from turnout.problems.oracles.torch_module import set_parameters as set_parameters
    from turnout.studies.api import study as study
    from turnout.studies.goals import Goal as Goal
    from turnout.studies.results import Study as Study

__version__ = "0.1.0"

__all__ = [
    "AOsmd",
    "AccFedDcd",
    "AccSDane",
    "AdaptiveSize",
    "Afl",
    "Algorithm",
    "Ask",
    "Available",
    "Avare",
    "BestParameters",
    "Block",
    "BySize",
    "Bytes",
    "Callback",
    "CatalyzedSvrp",
    "CeLgd",
    "CentredClipping",
    "Chain",
    "Client",
    "Clock",
    "Codec",
    "Cohort",
    "CohortSolver",
    "CoordinateMedian",
    "Cube",
    "Delegate",
    "Devices",
    "DesRaj",
    "DiLoCo",
    "Diana",
    "Done",
    "Drift",
    "Each",
    "EarlyStopping",
    "Ef21",
    "Estimator",
    "Exact",
    "Exchange",
    "Exchanges",
    "Faults",
    "FedAsync",
    "FedAvg",
    "FedAvgSppm",
    "FedBuff",
    "FedDcd",
    "FedDyn",
    "FedExProx",
    "FedLamb",
    "FedOpt",
    "FedProx",
    "FedProxSppm",
    "FedRed",
    "FedSpeed",
    "FedVarp",
    "Full",
    "FiveGcs",
    "Gd",
    "GeometricMedian",
    "Goal",
    "Hierarchical",
    "Icgm",
    "Importance",
    "Independent",
    "KVib",
    "Krum",
    "LastNorm",
    "LazyDane",
    "LinearPrice",
    "Logistic",
    "Mabs",
    "LoCoDl",
    "Marina",
    "MbGd",
    "MbLocalGd",
    "Mifa",
    "Mime",
    "MimeLite",
    "MimeMvr",
    "Multinomial",
    "Network",
    "Neural",
    "Nice",
    "NonUniform",
    "NumpyOracle",
    "Optimal",
    "Oracle",
    "Osmd",
    "Pivotal",
    "Plan",
    "PointSaga",
    "Population",
    "PowerOfChoice",
    "Privacy",
    "Probability",
    "Problem",
    "Quadratic",
    "Remote",
    "Replies",
    "RgSaga",
    "RgSvrg",
    "Ridge",
    "SaberFull",
    "SaberPartial",
    "Sag",
    "Saga",
    "Sampler",
    "Sarah",
    "Scaffnew",
    "Scaffold",
    "ScaffoldSag",
    "Ringleader",
    "Ringmaster",
    "SDane",
    "Seconds",
    "Seeds",
    "Selection",
    "ShuffledNice",
    "ShuffledStratified",
    "Sppm",
    "Svrp",
    "Storm",
    "Study",
    "Stratified",
    "Subsets",
    "Svrg",
    "Sweep",
    "Systematic",
    "Tamuna",
    "Target",
    "Trace",
    "TrimmedMean",
    "Uniform",
    "UserError",
    "Vrb",
    "WithReplacement",
    "ZeroSarah",
    "client_solvers",
    "codecs",
    "devices",
    "load_model",
    "on_client",
    "optimisers",
    "plan",
    "record",
    "run",
    "schedules",
    "solvers",
    "static",
    "study",
    "sweep",
    "trackers",
]


_TORCH = ("TorchOracle", "parameters_of", "set_parameters")
"""Public names that need PyTorch."""

_LAZY = {
    **dict.fromkeys(_TORCH, "turnout.problems.oracles.torch_module"),
    "Goal": "turnout.studies.goals",
    "Plan": "turnout.planner.plan",
    "Study": "turnout.studies.results",
    "plan": "turnout.planner.api",
    "study": "turnout.studies.api",
}
"""Modules of public names, which are imported when one of them is first used."""


def __getattr__(name: str):
    if name not in _LAZY:
        raise AttributeError(f"module 'turnout' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return [*__all__, *_TORCH, "__version__"]
