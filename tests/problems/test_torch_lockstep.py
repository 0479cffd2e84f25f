"""PyTorch clients that share a module as one batch: the same run as one by one, with fewer calls, or a sentence why not."""

import numpy as np
import pytest

import turnout as t
from turnout.core.errors import Caution, UserError

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from turnout.client_solvers import Gradient  # noqa: E402
from turnout.problems.oracles import torch_lockstep  # noqa: E402

ROWS = (4, 6, 8, 8, 9, 12)
EVERYONE = t.Full()


def network(*extra: nn.Module) -> nn.Sequential:
    """A small network with a convolution, the same at each call."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(1, 3, 3), *extra, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)).double()


class Loss:
    """The cross-entropy, which counts how often it is computed for a gradient."""

    def __init__(self):
        self.calls = 0

    def __call__(self, module, batch):
        self.calls += module.training and torch.is_grad_enabled()
        return nn.functional.cross_entropy(module(batch[0]), batch[1])


class Unbatched(Loss):
    """The same with a number on the way, which no batch of clients has."""

    def __call__(self, module, batch):
        return super().__call__(module, batch) * (1 if batch[0].sum().item() else 2)


def problem(*extra: nn.Module, loss=None, at_once: int = 8) -> t.Remote:
    module, clients = network(*extra), []
    loss = loss or Loss()
    for i, rows in enumerate(ROWS):
        generator = torch.Generator().manual_seed(i)
        images = torch.randn(rows, 1, 6, 6, generator=generator, dtype=torch.float64)
        loader = DataLoader(TensorDataset(images, torch.randint(4, (rows,), generator=generator)), batch_size=at_once)
        clients.append(t.TorchOracle(module, loader, loss))
    return t.Remote.of(t.parameters_of(module), clients)


def adapted(**options) -> t.Grouped:
    return t.Grouped.of(problem(**options), t.Adapter(["0.weight", "4.weight"], 2, 4.0), t.Frozen("*"))


def of_several_ranks(**options) -> t.Grouped:
    ranks = [1 + i % 2 for i in range(len(ROWS))]
    return t.Grouped.of(problem(**options), t.Adapter(["0.weight", "4.weight"], 2, 4.0, ranks=ranks), t.Frozen("*"))


def personal(**options) -> t.Grouped:
    return t.Grouped.of(problem(nn.BatchNorm2d(3), **options), t.Personal(["1.*"], lr=0.1, trained="within"))


@t.record
class Curved(t.Algorithm):
    """x - (a step along the gradient, and one along the Hessian times the gradient), by values and all rows of everyone."""

    sampler: t.Sampler

    def round(self, ask, x):
        return ask(self.sampler, self.move, x).mean()

    @t.on_client
    def move(self, client, x):
        gradient = client.grad(x)
        product = client.hvp(x, gradient)
        value = client.value(x)
        return t.Done({name: x[name] - 0.1 * gradient[name] - 0.01 * value * product[name] for name in x}, queries=3)


LOCAL = {"lr": 0.1, "batch": 4, "epochs": 2}
CASES = {
    "steps": (t.FedAvg(EVERYONE, **LOCAL), problem),
    "gradients": (t.FedProx(EVERYONE, mu=0.1, **LOCAL), problem),
    "passes in parts": (t.FedAvg(EVERYONE, lr=0.1, steps=2), lambda **options: problem(at_once=3, **options)),
    "statistics": (t.FedAvg(EVERYONE, **LOCAL), lambda **options: problem(nn.BatchNorm2d(3), **options)),
    "statistics in parts": (
        t.FedAvg(EVERYONE, lr=0.1, steps=2),
        lambda **options: problem(nn.BatchNorm2d(3), at_once=4, **options),
    ),
    "personal leaves": (t.FedAvg(EVERYONE, **LOCAL), personal),
    "adapters": (t.FedAvg(EVERYONE, **LOCAL), adapted),
    "adapters of several ranks": (t.FedAvg(EVERYONE, **LOCAL), of_several_ranks),
    "second derivatives": (Curved(EVERYONE), problem),
}


def played(algorithm, problem, rounds: int = 2) -> t.Trace:
    return t.run(algorithm, problem, rounds=rounds, seed=5, metrics=("value",), precision="double", engine="nodes")


@pytest.mark.tiers(quick=[], slow=["statistics in parts"])
@pytest.mark.parametrize("case", CASES)
def test_one_batch_gives_what_clients_give_one_by_one_with_fewer_calls(case, monkeypatch):
    algorithm, made = CASES[case]
    together, apart = Loss(), Loss()
    trace = played(algorithm, made(loss=together))
    monkeypatch.setattr(torch_lockstep, "MOST_ON_CPU", 0)
    alone = played(algorithm, made(loss=apart))
    for name in alone.x:
        np.testing.assert_allclose(trace.x[name], alone.x[name], rtol=1e-10, atol=1e-13, err_msg=name)
    np.testing.assert_allclose(trace.columns["value"], alone.columns["value"], rtol=1e-12)
    assert trace.ledger.totals() == alone.ledger.totals()
    assert together.calls < apart.calls


@pytest.mark.slow
def test_a_batch_is_played_again_to_the_bit_and_leaves_the_module_alone():
    extra = nn.BatchNorm2d(3)
    first, second = (played(t.FedAvg(EVERYONE, **LOCAL), problem(extra)) for _ in range(2))
    assert all(np.array_equal(first.x[name], second.x[name]) for name in first.x)
    assert extra.training and not extra.running_mean.any()


@pytest.mark.tiers(quick=[], slow=["item"])
@pytest.mark.parametrize(
    ("what", "options"),
    [("random operation", {"extra": nn.Dropout(0.5)}), ("item", {"loss": Unbatched()})],
    ids=["dropout", "item"],
)
def test_what_has_no_batch_is_told_and_computed_one_by_one(what, options, monkeypatch):
    def made():
        return problem(*([options["extra"]] if "extra" in options else []), loss=options.get("loss"))

    before = torch.get_rng_state()
    with pytest.warns(Caution, match=f"computed one by one.*{what}"):
        told = played(t.FedAvg(EVERYONE, **LOCAL), made())
    monkeypatch.setattr(torch_lockstep, "MOST_ON_CPU", 0)
    alone = played(t.FedAvg(EVERYONE, **LOCAL), made())
    for name in alone.x:
        np.testing.assert_allclose(told.x[name], alone.x[name], rtol=1e-12, err_msg=name)
    assert before.equal(torch.get_rng_state()) or "extra" not in options


@pytest.mark.slow
def test_a_solver_in_a_compiled_loop_has_no_batch_and_says_nothing():
    algorithm = t.FedProxSppm(EVERYONE, gamma=0.5, solver=Gradient(lr=0.1, steps=2))
    assert np.isfinite(played(algorithm, problem()).metrics["value"])


@pytest.mark.longer
def test_a_mistake_is_one_sentence():
    with pytest.raises(UserError, match="the mean loss of the batch, a scalar tensor"):
        played(t.FedAvg(EVERYONE, **LOCAL), problem(loss=lambda module, batch: module(batch[0])))
