"""Worker processes of a study: what a user should know is told once, as one sentence."""

import pytest

from tests.helpers.commands import whole

STUDY = """
seeds = "0-1"
[run]
rounds = 2
[problems.digits]
problem = { kind = "multinomial", data = "digits", mu = 0.1 }
split = { kind = "dirichlet", clients = 30, concentration = 0.05, min_rows = 5 }
sampler = { kind = "nice", size = 3 }
[methods.fedavg]
algorithm = { kind = "fedavg", lr = 0.1 }
[methods.gd]
algorithm = { kind = "mbgd", lr = 0.1 }
[goals.near]
metric = "value"
[prices.exchanges]
kind = "exchanges"
"""


@pytest.mark.slow
def test_workers_tell_what_a_user_should_know_once(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    code, _, errors = whole("study", tmp_path, "--workers", 2, "--out", tmp_path / "out")
    assert code == 0 and errors.count("drew fewer than 5 rows") == 1
    assert all(line.startswith("turnout: warning: ") for line in errors.splitlines() if line)
