"""Algorithms on adapters: engines agree, lost replies are mended, runs go on, messages are compressed, statistics go along."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import turnout as t
from tests.problems import test_adapter_ranks as ranked
from tests.problems.test_adapters import adapted, digits
from turnout.testing.algorithms import CHECKS, case

AGREEMENT = (
    "engines_agree",
    "ledger_counts_what_nodes_send",
    "lost_replies_are_mended",
    "resumes_to_the_bit",
    "goes_on_to_the_bit",
)

ALGORITHMS = {
    "fedavg": t.FedAvg(t.Nice(2), lr=0.1, steps=2),
    "scaffold": t.Scaffold(t.Nice(2), lr=0.05, steps=2),
    "mbgd": t.MbGd(t.Nice(2), lr=0.05),
    "newton": t.FedProxSppm(t.Nice(2), gamma=0.5, solver=t.client_solvers.NewtonCg()),
}
PLAIN = ("fedavg", "mbgd")
"""Those whose state is their parameters."""


CASES = [
    *((name, trained) for name in ALGORITHMS for trained in ("both", "B")),
    *((name, "alternating") for name in PLAIN),
    ("fedavg", "stacked"),
    *((name, "ranks") for name in ALGORITHMS),
    ("fedavg", "svd"),
]


def of(trained: str) -> t.Grouped:
    """Return a problem with adapters, for "svd" and "ranks" of several ranks."""
    if trained == "svd":
        # The products of two clients of rank 1 leave a singular value of zero.
        return ranked.adapted("svd", ranks=(1, 1, 2))
    return ranked.adapted() if trained == "ranks" else adapted(trained)


@pytest.mark.tiers(
    quick=[], longer=["fedavg-ranks"], slow=["scaffold-both", "fedavg-alternating", "fedavg-stacked", "fedavg-svd"]
)
@pytest.mark.parametrize(("name", "trained"), CASES, ids=["-".join(one) for one in CASES])
def test_algorithms_with_adapters(name, trained):
    tried = case(ALGORITHMS[name], of(trained))
    for check in AGREEMENT:
        CHECKS[check](tried)


@pytest.mark.tiers(quick=[], slow=["svd"])
@pytest.mark.parametrize("trained", ["both", "alternating", "stacked", "ranks", "svd"])
def test_adapters_are_compressed_in_both_engines(trained):
    exchange = t.Exchange(up=t.codecs.TopK(count=2), down=t.codecs.Qsgd(bits=8), feedback="ef21")
    runs = [
        t.run(ALGORITHMS["fedavg"], of(trained), rounds=3, exchange=exchange, engine=engine) for engine in ("compiled", "nodes")
    ]
    for left, right in zip(*(jax.tree.leaves((trace.x, trace.columns)) for trace in runs), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12)


@pytest.mark.tiers(quick=[], slow=["alternating", "svd"])
@pytest.mark.parametrize("trained", ["both", "alternating", "stacked", "svd"])
def test_devices_share_clients_with_adapters(trained):
    one, other = (t.run(ALGORITHMS["fedavg"], of(trained), rounds=3, mesh=devices) for devices in (1, 3))
    for left, right in zip(*(jax.tree.leaves((trace.x, trace.columns)) for trace in (one, other)), strict=True):
        np.testing.assert_allclose(right, left, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_statistics_of_a_model_with_adapters_are_averaged():
    problem = digits(model="residual-6", norm="batch")
    runs = [
        t.run(t.FedAvg(t.Full(), lr=0.1), t.Grouped.of(problem, t.Adapter("*", 1, trained=trained)), rounds=1)
        for trained in ("both", "alternating")
    ]
    for trace in runs:
        assert any(np.any(leaf) for name, leaf in trace.x.items() if name.endswith("running_mean"))


@pytest.mark.tiers(quick=[], slow=["svd"])
@pytest.mark.parametrize("trained", ["both", "alternating", "stacked", "svd"])
def test_a_cell_of_a_sweep_is_the_single_run(trained):
    algorithm = ALGORITHMS["fedavg"]
    swept = t.sweep(algorithm, of(trained), {"lr": [0.05, 0.1]}, seeds=(0, 1), rounds=2, metrics=("value",))
    for cell, trace in zip(swept.cells, swept.traces, strict=True):
        single = t.run(replace(algorithm, **cell.settings), of(trained), rounds=2, seed=cell.seed, metrics=("value",))
        for name, leaf in single.x.items():
            np.testing.assert_allclose(trace.x[name], leaf, rtol=1e-12, atol=1e-14)


BAD = {
    "state": (ALGORITHMS["scaffold"], "Scaffold has a state beside its parameters, which does not alternate between A and B"),
    "losses": (t.FedAvg(t.PowerOfChoice(2, candidates=3), lr=0.1), "a sampler that learns from losses needs messages with all"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_alternate_is_told(name):
    algorithm, sentence = BAD[name]
    with pytest.raises(t.UserError, match=sentence):
        t.run(algorithm, adapted("alternating"), rounds=1)


TABLES = """
[problem]
kind = "network"
data = "digits"
hidden = 8
[split]
kind = "iid"
clients = 4
[sampler]
kind = "full"
[algorithm]
kind = "fedavg"
lr = 0.1
[groups]
frozen = ["*"]
[groups.adapter]
leaves = ["hidden.weight", "output.weight"]
rank = 2
ranks = [1, 2, 2, 1]
alpha = 4.0
trained = "B"
inputs_first = true
[run]
rounds = 2
metrics = ["value"]
"""


def test_a_configuration_has_adapters_and_is_written_back(tmp_path):
    from turnout.experiment.build import build
    from turnout.experiment.config import read

    (tmp_path / "made.toml").write_text(TABLES)
    experiment = read(tmp_path / "made.toml")
    adapter = t.Adapter(["hidden.weight", "output.weight"], 2, 4.0, trained="B", inputs_first=True, ranks=[1, 2, 2, 1])
    assert experiment.groups.adapter == adapter
    (tmp_path / "again.toml").write_text(experiment.to_toml())
    assert read(tmp_path / "again.toml").groups == experiment.groups
    problem = build(experiment, None).problem
    assert problem.groups.shared == ("hidden.weight.lora_B", "output.weight.lora_B")
    for edit, sentence in (
        (("rank = 2", "rank = 0"), "groups.adapter.rank: must be at least 1"),
        (("ranks = [1,", "ranks = [0,"), "groups.adapter.ranks: "),
        (("rank = 2", "ranking = 2"), "unknown key"),
    ):
        (tmp_path / "bad.toml").write_text(TABLES.replace(*edit))
        with pytest.raises(t.UserError, match=sentence):
            read(tmp_path / "bad.toml")
