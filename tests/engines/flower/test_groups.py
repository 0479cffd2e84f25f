"""Groups of leaves in a federation: personal leaves stay at the nodes, statistics are averaged, and the numbers are the same."""

from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.clockless import clockless
from tests.helpers.in_process import InProcess
from tests.helpers.in_process_hubs import InProcessHubs
from turnout.core.leaf_names import leaves_by_name
from turnout.experiment.build import build, session_of
from turnout.experiment.config import read

PERSONAL = """
[problem]
kind = "network"
data = "digits"
hidden = 4
[split]
kind = "dirichlet"
clients = 4
concentration = 1.0
[sampler]
kind = "nice"
size = 3
[algorithm]
kind = "fedavg"
lr = 0.1
steps = 2
[groups.personal]
leaves = ["output"]
lr = 0.1
steps = 2
[run]
rounds = 3
metrics = ["value", "accuracy", "accuracy_10"]
"""

STATISTICS = """
[problem]
kind = "remote"
module = "normalised_clients"
clients = 3
classifies = true
[sampler]
kind = "full"
[algorithm]
kind = "fedavg"
lr = 0.1
batch = 4
epochs = 1
[run]
rounds = 2
precision = "single"
metrics = ["value", "accuracy"]
engine = "nodes"
"""

CLIENTS = """
import torch
import turnout as t
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def module():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3))

def start():
    return t.parameters_of(module())

def loss(module, batch):
    return nn.functional.cross_entropy(module(batch[0]), batch[1])

def right(module, batch):
    return (module(batch[0]).argmax(1) == batch[1]).sum()

def client(number):
    generator = torch.Generator().manual_seed(number)
    rows = torch.randn(8, 5, generator=generator), torch.randint(3, (8,), generator=generator)
    return t.TorchOracle(module(), DataLoader(TensorDataset(*rows), batch_size=4), loss, right)
"""


def written(folder: Path, name: str, text: str):
    file = folder / f"{name}.toml"
    file.write_text(text)
    return read(file)


@pytest.mark.tiers(quick=[], slow=["hubs"])
@pytest.mark.parametrize(("place", "hubs"), [(InProcess, ""), (InProcessHubs, "[hubs]\ncount = 2\n")], ids=["flat", "hubs"])
def test_personal_leaves_stay_at_the_nodes(place, hubs, tmp_path):
    """Also where hubs add the shared ones up, and forward the metrics of each client."""
    experiment = written(tmp_path, "personal", PERSONAL + hubs)
    session = place(experiment).session().run()
    compiled = session_of(experiment, build(experiment, None)).run().trace
    trace = session.trace
    assert clockless(trace).ledger.totals() == clockless(compiled).ledger.totals()
    for name in ("value", "accuracy", "accuracy_10"):
        np.testing.assert_allclose(trace.columns[name], compiled.columns[name], rtol=1e-10)
    for name, leaf in leaves_by_name(trace.x).items():
        np.testing.assert_allclose(leaf, leaves_by_name(compiled.x)[name], rtol=1e-10, err_msg=name)
    assert trace.own is None and compiled.own is not None
    assert trace.ledger.totals()["bytes_up"] == 3 * 3 * 8 * (64 * 4 + 4)


@pytest.mark.tiers(quick=[], slow=["svd-ranks2"])
@pytest.mark.parametrize(("trained", "ranks"), [("alternating", None), ("stacked", None), ("svd", [2, 1, 2, 1])])
def test_nodes_with_adapters_give_the_compiled_run(tmp_path, trained, ranks):
    head, _, tail = PERSONAL.partition("[groups.personal]")
    adapter = f'[groups.adapter]\nleaves = ["*"]\nrank = 2\ntrained = "{trained}"\ninputs_first = true\n'
    adapter += "" if ranks is None else f"ranks = {ranks}\n"
    experiment = written(tmp_path, trained, head + adapter + tail[tail.index("[run]") :])
    trace, compiled = InProcess(experiment).session().run().trace, session_of(experiment, build(experiment, None)).run().trace
    assert clockless(trace).ledger.totals() == clockless(compiled).ledger.totals()
    for name, leaf in compiled.x.items():
        np.testing.assert_allclose(trace.x[name], leaf, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.longer
def test_running_statistics_of_pytorch_nodes_are_averaged(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
    from safetensors.torch import load_file

    (tmp_path / "normalised_clients.py").write_text(dedent(CLIENTS))
    monkeypatch.syspath_prepend(tmp_path)
    import normalised_clients as clients  # type: ignore

    experiment = written(tmp_path, "statistics", STATISTICS)
    trace = InProcess(experiment, sizes=[8] * 3).session().run().trace
    nodes = session_of(experiment, build(experiment, None)).run().trace
    trace.save_model(tmp_path / "model.safetensors")
    module = clients.module()
    module.load_state_dict(load_file(tmp_path / "model.safetensors"))
    module.eval()
    rows = [clients.client(i).dataset.tensors for i in range(3)]
    with torch.no_grad():
        value = np.mean([float(clients.loss(module, batch)) for batch in rows])
        share = np.mean([float(clients.right(module, batch)) / 8 for batch in rows])
    np.testing.assert_allclose([trace.metrics["value"], trace.metrics["accuracy"]], [value, share], rtol=1e-6)
    for name in trace.x:
        np.testing.assert_allclose(trace.x[name], nodes.x[name], rtol=1e-6, atol=1e-7, err_msg=name)
    assert module[1].running_mean.any()
