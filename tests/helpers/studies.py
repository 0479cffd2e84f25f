"""A small study without data, as text and as tables, and its parts."""

import tomllib
from pathlib import Path

from turnout.studies.configurations import read_sources
from turnout.studies.declaration import Declaration
from turnout.studies.reader import DeclarationReader
from turnout.studies.sources import Source

STUDY = """\
title = "A small study"
seeds = 3

[run]
rounds = 8

[problems.made]
problem = { kind = "log-sum", clients = 6, dimension = 5, similarity = 5.0 }
sampler = { kind = "nice", size = 2 }

[problems.flat]
problem = { kind = "log-sum", clients = 6, dimension = 5, flat = 2 }
sampler = { kind = "nice", size = 3 }

[methods.fedavg]
title = "FedAvg"
algorithm = { kind = "fedavg", lr = 0.01, steps = 2 }
grid = { "algorithm.lr" = [0.001, 0.01] }

[methods.mbgd]
problems = ["made"]
algorithm = { kind = "mbgd", lr = 1.0 }

[methods.mbgd.grid]
algorithm.lr = [0.1, 0.3]
sampler.size = [2, 3]

[methods.mbgd.scale]
algorithm.lr = "1/L"

[goals.near]
metric = "gradient"
share = 0.5

[prices.exchanges]
kind = "exchanges"

[prices.dear]
kind = "hierarchical"
c1 = 0.5
c2 = 2.0

[[claims]]
method = "fedavg"
rival = "mbgd"
at_most = 2.0
"""


def tables(text: str = STUDY) -> dict:
    """The small study as tables."""
    return tomllib.loads(text)


def declared(what: dict | Path) -> Declaration:
    """Read a study."""
    source = Source(what) if isinstance(what, dict) else read_sources([what])
    return DeclarationReader(source).declaration()
