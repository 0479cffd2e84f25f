"""Studies of methods on devices: the clock as a price and as an axis, and devices as swept keys."""

import tomllib

import numpy as np
import polars as pl
import pytest

import turnout as t
from turnout.studies.curves import drawings

STUDY = """\
seeds = 1
[run]
rounds = 4
[problems.made]
problem = { kind = "log-sum", clients = 6, dimension = 5, similarity = 5.0 }
sampler = { kind = "nice", size = 3 }
faults = { missing = "skip" }
devices = { seconds_per_query = { kind = "log-normal", median = 0.1 }, latency = 0.5 }
[methods.fedavg]
algorithm = { kind = "fedavg", lr = 0.01, steps = 2 }
grid = { "devices.first" = [1, 3] }
[goals.last]
metric = "gradient"
hold = "last"
[prices.clock]
kind = "clock"
[[figures]]
name = "1"
[[figures.panels]]
x = "seconds"
settings = "all"
"""


@pytest.mark.longer
def test_devices_are_swept_and_seconds_are_an_axis_and_a_price():
    study = t.study(tomllib.loads(STUDY))
    ends = study.runs.filter(pl.col("round") == 4)
    first, everyone = (ends.filter(pl.col("devices.first") == count) for count in (1, 3))
    assert np.all(first["seconds"].to_numpy() < everyone["seconds"].to_numpy())
    assert first["arrivals"].to_list() == [4] and everyone["arrivals"].to_list() == [12]
    (drawing,) = drawings(study, study.declaration.figures[0])
    ends_of_lines = sorted(line.x[-1] for line in drawing.lines)
    np.testing.assert_allclose(ends_of_lines, [first["seconds"].item(), everyone["seconds"].item()], rtol=1e-4)
    costs = study.costs("last", "clock")
    assert costs.height == 2 and {*study.declaration.prices} == {"clock"}
