"""Low-rank adapters of PyTorch clients: the run by hand with autograd, and the outputs that PEFT gives for the files."""

import jax
import numpy as np
import pytest

import turnout as t
from turnout.data import IidSplit, load

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
from torch import nn  # noqa: E402
from torch.func import functional_call  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

CLIENTS, ROWS, LR, STEPS, ROUNDS, RANK, ALPHA = 2, 6, 0.2, 2, 2, 2, 4.0
MATRICES = ("0.weight", "4.weight")


def network() -> nn.Sequential:
    """A convolution and a dense layer, the same at each call."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4))


def images(i: int) -> tuple:
    generator = torch.Generator().manual_seed(i)
    return torch.randn(ROWS, 1, 6, 6, generator=generator), torch.randint(4, (ROWS,), generator=generator)


def loss(module, batch):
    return nn.functional.cross_entropy(module(batch[0]), batch[1])


def adapted(trained: str = "both") -> t.Grouped:
    one = network()
    clients = [t.TorchOracle(one, DataLoader(TensorDataset(*images(i)), batch_size=ROWS), loss) for i in range(CLIENTS)]
    group = t.Adapter(list(MATRICES), RANK, ALPHA, trained=trained)
    return t.Grouped.of(t.Remote.of(t.parameters_of(one), clients), group, t.Frozen("*"))


def played(problem, rounds: int = ROUNDS):
    return t.run(t.FedAvg(t.Full(), lr=LR, steps=STEPS), problem, rounds=rounds, engine="nodes", precision="single")


def by_hand(x: dict, moving: tuple) -> dict:
    """Federated averaging of everyone with gradients of autograd through W + (alpha / r) B A."""
    module = network()

    def merged(y):
        weights = {name: p.detach() for name, p in module.named_parameters()}
        return weights | {
            name: weights[name] + ALPHA / RANK * (y[f"{name}.lora_B"] @ y[f"{name}.lora_A"]).reshape(weights[name].shape)
            for name in MATRICES
        }

    x = {name: torch.tensor(leaf) for name, leaf in x.items()}
    for _ in range(ROUNDS):
        ends = []
        for i in range(CLIENTS):
            features, labels = images(i)
            y = dict(x)
            for _ in range(STEPS):
                y = {name: leaf.detach().requires_grad_(name in moving) for name, leaf in y.items()}
                value = nn.functional.cross_entropy(functional_call(module, merged(y), (features,)), labels)
                slopes = torch.autograd.grad(value, [y[name] for name in moving])
                y |= {name: y[name] - LR * slope for name, slope in zip(moving, slopes, strict=True)}
            ends.append(y)
        x = x | {name: sum(end[name] for end in ends).detach() / CLIENTS for name in moving}
    return {name: leaf.numpy() for name, leaf in x.items()}


@pytest.mark.tiers(quick=[], longer=["B"])
@pytest.mark.parametrize("trained", ["both", "B"])
def test_a_run_is_the_one_by_hand(trained):
    problem = adapted(trained)
    first = {name: np.array(leaf) for name, leaf in played(problem, rounds=0).x.items() if "lora" in name}
    moving = tuple(name for name in first if trained == "both" or name.endswith("B"))
    trace = played(problem)
    for name, leaf in by_hand(first, moving).items():
        np.testing.assert_allclose(trace.x[name], leaf, rtol=1e-5, atol=1e-7)
    assert trace.ledger.totals()["bytes_up"] == ROUNDS * CLIENTS * 4 * sum(first[name].size for name in moving)


@pytest.mark.longer
def test_peft_gives_the_outputs_of_the_merged_module(tmp_path):
    peft = pytest.importorskip("peft", reason="PEFT is not installed: pip install peft")
    problem = adapted()
    trace = played(problem)
    t.save_peft(tmp_path, trace.x, problem)
    module, (features, _) = network(), images(5)
    t.set_parameters(module, problem.merged(trace.x))
    with torch.no_grad():
        other = peft.PeftModel.from_pretrained(network(), tmp_path).eval()
        np.testing.assert_allclose(other(features).numpy(), module(features).numpy(), rtol=1e-6, atol=1e-6)
        assert not np.allclose(network()(features).numpy(), module(features).numpy(), atol=1e-3)


@pytest.mark.longer
def test_what_peft_writes_is_read(tmp_path):
    peft = pytest.importorskip("peft", reason="PEFT is not installed: pip install peft")
    config = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["0", "4"], init_lora_weights=False)
    model, (features, _) = peft.get_peft_model(network(), config), images(5)
    model.save_pretrained(tmp_path)
    problem, module = adapted(), network()
    t.set_parameters(module, problem.merged(t.load_peft(tmp_path, problem)))
    with torch.no_grad():
        np.testing.assert_allclose(model.eval()(features).numpy(), module(features).numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to True but the target module is")
def test_peft_gives_the_outputs_of_a_network_in_jax(tmp_path):
    """A network whose matrices are [inputs, outputs]."""
    peft = pytest.importorskip("peft", reason="PEFT is not installed: pip install peft")
    data = load("digits")
    problem = t.Neural.of(data, IidSplit(clients=2).split(data), model="perceptron", hidden=16)
    problem = t.Grouped.of(problem, t.Adapter("*", RANK, ALPHA, inputs_first=True))
    trace = t.run(t.FedAvg(t.Full(), lr=0.1, steps=3), problem, rounds=2)
    t.save_peft(tmp_path, trace.x, problem)

    class Perceptron(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleDict({"hidden": nn.Linear(64, 16), "output": nn.Linear(16, 10)})

        def forward(self, features):
            return self.layers["output"](torch.relu(self.layers["hidden"](features)))

    module = Perceptron()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(torch.tensor(np.asarray(trace.x[name]).T))
        features = np.random.default_rng(0).uniform(size=(7, 64)).astype("float32")
        outputs = peft.PeftModel.from_pretrained(module, tmp_path).eval()(torch.tensor(features)).numpy()
    with jax.enable_x64(False):
        expected = problem.logits(problem.merged(trace.x), features)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
