"""PyTorch clients: the same run as a loop by hand in PyTorch and as a program in JAX, and a module that is left as it was."""

from copy import deepcopy
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import turnout as t
from turnout.core.errors import Caution, UserError
from turnout.core.permutation import shuffled
from turnout.core.records import record
from turnout.core.seeds import Seeds
from turnout.problems.base import Population, Problem

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
from safetensors.torch import load_file  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, TensorDataset  # noqa: E402

from turnout.problems.oracles.torch_module import TorchOracle, parameters_of, set_parameters  # noqa: E402

CLIENTS, ROWS, BATCH, LR, ROUNDS = 3, 7, 4, 0.1, 3


def network(*extra: nn.Module) -> nn.Sequential:
    """A small network with a convolution, the same at each call."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), *extra, nn.Linear(12, 4))


def images(i: int) -> tuple:
    """The rows of client i."""
    generator = torch.Generator().manual_seed(i)
    return torch.randn(ROWS, 1, 6, 6, generator=generator), torch.randint(4, (ROWS,), generator=generator)


def loss(module, batch):
    features, labels = batch
    return nn.functional.cross_entropy(module(features.to(next(module.parameters()).dtype)), labels)


def right(module, batch):
    return (module(batch[0].to(next(module.parameters()).dtype)).argmax(1) == batch[1]).sum()


def client(i: int, module: nn.Module) -> TorchOracle:
    return TorchOracle(module, DataLoader(TensorDataset(*images(i)), batch_size=4), loss, right)


def federated(*extra: nn.Module, shared: bool = False, classifies: bool = False, dtype=torch.float32) -> t.Remote:
    one = network(*extra).to(dtype)
    clients = [client(i, one if shared else deepcopy(one)) for i in range(CLIENTS)]
    return t.Remote.of(parameters_of(one), clients, classifies=classifies)


def played(problem: Problem, metrics=("value",), rounds: int = ROUNDS, **options) -> t.Trace:
    algorithm = t.FedAvg(t.Full(), lr=LR, batch=BATCH, epochs=2)
    return t.run(algorithm, problem, rounds=rounds, seed=5, metrics=metrics, **{"precision": "single", **options})


@record
class Convolution(Problem):
    """`network` in JAX."""

    def losses(self, x, rows):
        features, labels = rows
        maps = lax.conv_general_dilated(features, x["0.weight"], (1, 1), "VALID") + x["0.bias"][None, :, None, None]
        pooled = lax.reduce_window(jnp.maximum(maps, 0), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        logits = pooled.reshape(len(labels), -1) @ x["4.weight"].T + x["4.bias"][None]
        return jax.nn.logsumexp(logits, axis=1) - jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]

    def start(self, key):
        return jax.tree.map(jnp.asarray, parameters_of(network()))


def by_hand(*extra: nn.Module) -> dict:
    """Federated averaging in PyTorch alone, of running statistics too, with the batches that turnout's seeds give."""
    module = network(*extra).double()
    floats = [name for name, tensor in module.state_dict().items() if tensor.is_floating_point()]
    server = {name: module.state_dict()[name].numpy().copy() for name in floats}
    for round in range(1, ROUNDS + 1):
        trained = []
        for i in range(CLIENTS):
            features, labels = images(i)
            module.load_state_dict({name: torch.tensor(array) for name, array in server.items()}, strict=False)
            optimiser = torch.optim.SGD(module.parameters(), lr=LR)
            key = jax.random.fold_in(Seeds.of(5).exchange(round, 0), i)
            for number in range(2):
                order = shuffled(jax.random.fold_in(key, number), jnp.asarray(ROWS))(jnp.arange(ROWS))
                for rows in torch.tensor(np.array(order)).split(BATCH):
                    optimiser.zero_grad()
                    loss(module, (features[rows], labels[rows])).backward()
                    optimiser.step()
            trained.append({name: module.state_dict()[name].numpy().copy() for name in floats})
        server = jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *trained)
    return server


def same(one, two, **tolerance):
    for name in one:
        np.testing.assert_allclose(one[name], two[name], err_msg=name, **(tolerance or {"rtol": 1e-5, "atol": 2e-6}))


@pytest.mark.slow
def test_a_network_is_trained_alike_by_nodes_by_hand_and_in_jax():
    parts = [images(i) for i in range(CLIENTS)]
    rows = tuple(np.concatenate([part[k].numpy() for part in parts]) for k in range(2))
    rows = rows[0], rows[1].astype(np.int32)
    compiled = played(Convolution(rows, np.arange(CLIENTS + 1) * ROWS, Population(count=CLIENTS)))
    nodes = played(federated(), engine="nodes")
    same(nodes.x, by_hand())
    same(nodes.x, compiled.x)
    np.testing.assert_allclose(nodes.columns["value"], compiled.columns["value"], rtol=1e-5)
    np.testing.assert_array_equal(nodes.columns["counts"], compiled.columns["counts"])
    assert not np.allclose(nodes.x["4.weight"], parameters_of(network())["4.weight"], atol=1e-2)


@pytest.mark.slow
def test_clients_may_share_a_module_which_is_left_as_it_was(request):
    # In turn, where all is done in one place, not a bit differs.
    request.addfinalizer(partial(torch.set_num_threads, torch.get_num_threads()))
    torch.set_num_threads(1)
    module = network()
    before = parameters_of(module)
    problem = t.Remote.of(before, [client(i, module) for i in range(CLIENTS)])
    trace = played(problem, engine="nodes")
    same(trace.x, played(federated(), engine="nodes").x, rtol=0)
    same(parameters_of(module), before, rtol=0)
    assert all(parameter.grad is None for parameter in module.parameters())
    set_parameters(module, trace.x)
    same(parameters_of(module), trace.x, rtol=0)
    with torch.no_grad():
        module[0].weight.zero_()
    assert np.abs(trace.x["0.weight"]).min() > 0


def test_what_a_client_may_change_of_its_module_is_not_what_the_run_holds():
    oracle, x = client(0, network()), parameters_of(network())
    _, first = oracle.value_and_grad(x, slice(None))
    before = {name: array.copy() for name, array in first.items()}
    oracle.value_and_grad({name: 2 * array for name, array in x.items()}, slice(None))
    same(first, before, rtol=0)


def test_parameters_that_a_loss_has_not_in_it_or_is_linear_in_have_no_second_derivatives():
    module = network()
    module.spare = nn.Parameter(torch.ones(2))
    flat = nn.Linear(36, 1)
    oracles = (
        client(0, network()),
        *(
            TorchOracle(module, DataLoader(TensorDataset(*images(0)), batch_size=4), given)
            for module, given in (
                (module, lambda module, batch: loss(nn.Sequential(*module.children()), batch)),
                (flat, lambda module, batch: module(batch[0].flatten(1)).mean()),
            )
        ),
    )
    products = []
    for oracle in oracles:
        x = {name: part.detach().numpy() for name, part in oracle.parameters.items()}
        products.append(oracle.hvp(x, jax.tree.map(np.ones_like, x), slice(None)))
    assert not products[1].pop("spare").any() and not any(part.any() for part in products[2].values())
    same(*products[:2])


@pytest.mark.longer
def test_frozen_parameters_are_not_sent():
    module = network()
    module[0].weight.requires_grad_(False)
    trace = played(t.Remote.of(parameters_of(module), [client(i, module) for i in range(CLIENTS)]), engine="nodes")
    assert set(trace.x) == {"0.bias", "4.weight", "4.bias"}
    assert trace.columns["value"][-1] < trace.columns["value"][0]


@pytest.mark.slow
def test_dropout_follows_the_clients_key_and_metrics_have_none():
    runs = []
    for seed in (0, 1):
        problem = federated(nn.Dropout(0.5))
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        runs.append(played(problem, engine="nodes"))
        assert torch.equal(state, torch.get_rng_state())
    same(runs[0].x, runs[1].x, rtol=0)
    np.testing.assert_array_equal(runs[0].columns["value"], runs[1].columns["value"])
    assert not np.allclose(runs[0].x["5.weight"], played(federated(), engine="nodes").x["4.weight"], atol=1e-3)
    first = np.mean([float(loss(network(), images(i)).detach()) for i in range(CLIENTS)])
    np.testing.assert_allclose(runs[0].columns["value"][0], first, rtol=1e-5)


@pytest.mark.tiers(quick=[], slow=["False"])
@pytest.mark.parametrize("shared", [True, False])
def test_running_statistics_are_averaged_and_modules_are_left_as_they_were(shared):
    """As in PyTorch alone; metrics are in evaluation mode, with the averaged statistics."""
    problem = federated(nn.BatchNorm1d(12), shared=shared, classifies=True, dtype=torch.float64)
    modules = [problem.client(i).module for i in range(CLIENTS)]
    trace = played(problem, ("value", "gradient", "accuracy"), engine="nodes", precision="double")
    same(trace.x, by_hand(nn.BatchNorm1d(12)), rtol=1e-10)
    assert trace.ledger.totals()["bytes_up"] == ROUNDS * CLIENTS * 8 * sum(leaf.size for leaf in trace.x.values())
    assert all(module[4].training and not module[4].running_mean.any() for module in modules)
    module = network(nn.BatchNorm1d(12)).double()
    set_parameters(module, trace.x)
    module.eval()
    with torch.no_grad():
        value = np.mean([float(loss(module, images(i))) for i in range(CLIENTS)])
        right_ones = np.mean([float(right(module, images(i))) / ROWS for i in range(CLIENTS)])
    np.testing.assert_allclose([trace.metrics["value"], trace.metrics["accuracy"]], [value, right_ones], rtol=1e-10)


def test_a_running_mean_over_all_batches_is_refused():
    with pytest.raises(t.UserError, match="momentum = None has no running mean that can be averaged: give it a momentum"):
        client(0, network(nn.BatchNorm1d(12, momentum=None)))


class Tied(nn.Module):
    """Two layers with one weight, statistics of batches, and a frozen layer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second, self.norm = nn.Linear(36, 36), nn.Linear(36, 36), nn.BatchNorm1d(36)
        self.second.weight = self.first.weight
        self.last = nn.Linear(36, 4).requires_grad_(False)

    def forward(self, images):
        return self.last(self.second(torch.tanh(self.norm(self.first(images.flatten(1))))))


@pytest.mark.tiers(quick=[], slow=["False"])
@pytest.mark.parametrize("shared", [True, False])
def test_the_file_of_a_model_is_its_whole_state_and_gives_what_the_run_reports(shared, tmp_path):
    """Running statistics, tied names and frozen layers too; other buffers stay with the clients, and a warning says so."""
    modules = [Tied()] * CLIENTS if shared else [Tied() for _ in range(CLIENTS)]
    problem = t.Remote.of(parameters_of(modules[0]), [client(i, module) for i, module in enumerate(modules)], classifies=True)
    trace, path = played(problem, ("value", "accuracy"), engine="nodes"), tmp_path / "model.safetensors"
    trace.save_model(path)
    fresh = Tied()
    fresh.load_state_dict(load_file(path))
    fresh.eval()
    with torch.no_grad():
        value = np.mean([float(loss(fresh, images(i))) for i in range(CLIENTS)])
    np.testing.assert_allclose(trace.metrics["value"], value, rtol=1e-6)
    same(t.load_model(path, trace.x), trace.x, rtol=0)
    assert torch.equal(fresh.second.weight, fresh.first.weight)
    again = t.Remote.of(parameters_of(Tied()), [client(i, Tied()) for i in range(CLIENTS)])
    same(played(again, rounds=0, engine="nodes", start=path).x, trace.x, rtol=0)


class Counting(nn.Module):
    """A layer that counts its passes in a buffer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(36, 4)
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, images):
        self.passes += images.shape[0]
        return self.layer(images.flatten(1))


@pytest.mark.longer
def test_of_buffers_that_stay_with_clients_a_file_has_those_of_one_and_a_warning_says_so(tmp_path):
    modules = [Counting() for _ in range(CLIENTS)]
    modules[1].passes += 1
    problem = t.Remote.of(parameters_of(modules[0]), [client(i, module) for i, module in enumerate(modules)])
    trace = played(problem, engine="nodes")
    with pytest.warns(Caution, match="buffers of their own, such as passes: the file has those of one"):
        trace.save_model(tmp_path / "model.safetensors")
    assert load_file(tmp_path / "model.safetensors")["passes"] == modules[0].passes > 0


def test_a_module_in_bfloat16_and_one_that_is_partly_in_evaluation_mode():
    module = network().to(torch.bfloat16)
    oracle = TorchOracle(module, DataLoader(TensorDataset(images(0)[0].bfloat16(), images(0)[1])), loss)
    x = parameters_of(module)
    value, gradient = oracle.value_and_grad(x, slice(None))
    whole, exact = client(0, network()).value_and_grad(parameters_of(network()), slice(None))
    assert x["0.weight"].dtype == gradient["0.weight"].dtype == jnp.bfloat16
    np.testing.assert_allclose(value, whole, rtol=0.02)
    np.testing.assert_allclose(gradient["4.bias"].astype(np.float32), exact["4.bias"], atol=0.02)
    module[0].eval()
    with oracle.evaluating():
        assert not any(part.training for part in module.modules())
    assert not module[0].training and module[1].training


class Rows(torch.utils.data.Dataset):
    """Rows that are read many at a time."""

    def __len__(self):
        return ROWS

    def __getitems__(self, numbers):
        return [(features, label) for features, label in zip(*(part[numbers] for part in images(0)), strict=True)]


class Single(torch.utils.data.Dataset):
    """Rows that are read one at a time."""

    def __len__(self):
        return ROWS

    def __getitem__(self, k):
        return tuple(part[k] for part in images(0))


def test_rows_are_read_in_whatever_way_a_data_set_has():
    x, rows = parameters_of(network()), np.array([4, 0, 4])
    wanted = client(0, network()).value_and_grad(x, rows)[1]
    for dataset in (Rows(), Single()):
        same(TorchOracle(network(), DataLoader(dataset), loss).value_and_grad(x, rows)[1], wanted)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(())


def broken(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        module[0].bias[1] = torch.nan
    return module


def full(module, batch):
    raise torch.OutOfMemoryError("as a device says whose memory is full")


def classes(count: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, count))


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (lambda: TorchOracle(network(), DataLoader(Stream()), loss), "map-style"),
        (lambda: TorchOracle(network().requires_grad_(False), DataLoader(Rows()), loss), "nothing to train"),
        (lambda: parameters_of(broken(network())), "0.bias of the module is NaN"),
        (lambda: client(0, classes(2)).value(parameters_of(classes(2)), slice(None)), "put.*out fit the labels"),
        (lambda: client(0, classes(4)).value(parameters_of(classes(3)), slice(None)), r"shape \(4, 36\).*of shape \(3, 36\)"),
        (lambda: client(0, classes(4)).value(parameters_of(network()), slice(None)), "1.weight.*missing"),
        (
            lambda: TorchOracle(network(), DataLoader(Rows()), full).value(parameters_of(network()), slice(None)),
            "more memory than cpu",
        ),
    ],
)
def test_a_mistake_is_one_sentence(mistake, sentence):
    with pytest.raises(UserError, match=sentence):
        mistake()


def test_a_step_is_that_of_numpy_to_the_bit_and_leaves_the_module_alone():
    generator = torch.Generator().manual_seed(0)
    rows = TensorDataset(torch.randn(12, 5, generator=generator), torch.randint(3, (12,), generator=generator))
    module = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    oracle = TorchOracle(module, DataLoader(rows, batch_size=5), loss)
    start, factor = parameters_of(module), np.float32(-0.3)
    expected = x = start
    with oracle.local_work(jax.random.key(0)) as own:
        for numbers in (np.arange(7), slice(None), np.array([3, 3, 1])):
            gradient = oracle.value_and_grad(expected, numbers)[1]
            expected = {name: leaf + factor * gradient[name] for name, leaf in expected.items()}
            x = own.step(x, numbers, float(factor))
            for name, leaf in expected.items():
                np.testing.assert_array_equal(x[name], leaf)
        # From elsewhere than where the last step ended.
        again = own.step(start, np.arange(7), float(factor))
        own.step(again, np.arange(7), float(factor))
    gradient = oracle.value_and_grad(start, np.arange(7))[1]
    for name, leaf in start.items():
        np.testing.assert_array_equal(again[name], leaf + factor * gradient[name])
        np.testing.assert_array_equal(parameters_of(module)[name], leaf)
