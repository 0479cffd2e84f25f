"""PyTorch clients side by side: the same run as one after another, and one after another where they would be in the way."""

import threading
from itertools import product

import numpy as np
import pytest

import turnout as t
from turnout.core.errors import UserError

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'turnout[torch]'")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

from tests.problems.test_torch_clients import CLIENTS, ROWS, images, loss, network, same  # noqa: E402
from turnout.client_solvers import Gradient  # noqa: E402
from turnout.problems.oracles.torch_module import TorchOracle, parameters_of  # noqa: E402

FEDAVG = t.FedAvg(t.Full(), lr=0.1, batch=4, epochs=2)
PATIENCE = 60.0
"""Seconds within which two threads meet, if they are there at once."""


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def problem(modules, loss=loss, dataset=lambda i: TensorDataset(*images(i))) -> t.Remote:
    clients = [TorchOracle(module, DataLoader(dataset(i), batch_size=4), loss) for i, module in enumerate(modules)]
    return t.Remote.of(parameters_of(modules[0]), clients)


def shared(*extra: nn.Module) -> list[nn.Module]:
    return [network(*extra)] * CLIENTS


def own(*extra: nn.Module) -> list[nn.Module]:
    return [network(*extra) for _ in range(CLIENTS)]


def played(problem, algorithm=FEDAVG, precision="single") -> t.Trace:
    return t.run(algorithm, problem, rounds=2, seed=5, metrics=("value",), precision=precision, engine="nodes")


def states() -> tuple:
    return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()


class Met:
    """`loss`, which notes who asks for a gradient, the first two waiting for each other."""

    def __init__(self):
        self.calls, self.lock, self.barrier = [], threading.Lock(), threading.Barrier(2)

    def __call__(self, module, batch):
        if torch.is_grad_enabled():
            with self.lock:
                self.calls.append((threading.current_thread(), module, torch.get_num_threads()))
                early = len(self.calls) <= 2
            if early:
                self.barrier.wait(PATIENCE)
        return loss(module, batch)


@pytest.mark.tiers(quick=[], slow=["single-2-1-shared", "single-6-2-shared", "*double*-2-1-shared"])
@pytest.mark.parametrize("modules", [shared, own])
@pytest.mark.parametrize(("workers", "each"), [(2, 1), (5, 1), (6, 2)])
@pytest.mark.parametrize("precision", ["single", pytest.param("double", marks=pytest.mark.slow)])
def test_clients_work_at_a_time_and_find_what_they_find_in_turn(threads, modules, workers, each, precision):
    threads(1)
    alone = played(problem(modules()), precision=precision)
    threads(workers)
    met = Met()
    beside = played(problem(modules(), met), precision=precision)
    assert met.calls[0][0] is not met.calls[1][0] and met.calls[0][1] is not met.calls[1][1]
    assert all(thread is not threading.main_thread() and number == each for thread, _, number in met.calls)
    assert torch.get_num_threads() == workers
    # How PyTorch adds up depends on where arrays lie, so that the last bit may differ.
    same(beside.x, alone.x)
    np.testing.assert_allclose(beside.columns["value"], alone.columns["value"], rtol=1e-5)


@pytest.mark.slow
def test_clients_whose_modules_have_a_part_in_common(threads):
    first, last = network(), network()[4:]
    traces = []
    for workers, met in ((1, loss), (2, Met())):
        threads(workers)
        traces.append(played(problem([nn.Sequential(*first[:4], last) for _ in range(CLIENTS)], met)))
    same(traces[1].x, traces[0].x)
    same(parameters_of(first), parameters_of(network()), rtol=0)


@pytest.mark.longer
def test_what_is_frozen_is_not_copied(threads):
    threads(2)
    module = network()
    module[0].weight.requires_grad_(False)
    met = Met()
    played(problem([module] * CLIENTS, met))
    (_, one, _), (_, two, _), *_ = met.calls
    assert one[0].weight is two[0].weight is module[0].weight and one[4].weight is not two[4].weight


class Noisy(Dataset):
    """Rows with noise from NumPy's own generator."""

    def __init__(self, i: int):
        self.rows = images(i)

    def __len__(self):
        return ROWS

    def __getitem__(self, k):
        return self.rows[0][k] + np.float32(np.random.normal()), self.rows[1][k]


def of_one_module():
    """Clients whose loss is that of the one module, whatever module it is called with."""
    module = network()
    return problem([module] * CLIENTS, lambda _, batch: loss(module, batch))


def decayed():
    """Clients whose loss is in part that of the one module."""
    module = network()
    return problem([module] * CLIENTS, lambda given, batch: loss(given, batch) + module[4].weight.square().sum() / 100)


def uncopied():
    """Clients that share a module of which there is no copy."""
    module = network()
    module.lock = threading.Lock()
    return problem([module] * CLIENTS)


IN_THE_WAY = {
    "dropout": lambda: problem(own(nn.Dropout(0.5))),
    "buffers": lambda: problem(own(nn.BatchNorm1d(12))),
    "noise": lambda: problem(own(), dataset=Noisy),
    "a loss of another module": of_one_module,
    "a loss of another module too": decayed,
    "no copy": uncopied,
}


ASKED = {"everyone": t.Full(), "candidates": t.PowerOfChoice(size=2, candidates=3)}


@pytest.mark.tiers(quick=[], slow=["buffers-candidates"])
@pytest.mark.parametrize(("case", "asked"), [*product(IN_THE_WAY, ASKED)])
def test_those_in_each_others_way_go_in_turn(threads, case, asked):
    traces = []
    for workers in (1, 2):
        threads(workers)
        np.random.seed(1)
        traces.append((played(IN_THE_WAY[case](), t.FedAvg(ASKED[asked], lr=0.1, batch=4, epochs=1)), states()))
    (alone, first), (beside, second) = traces
    same(beside.x, alone.x)
    assert first == second


@pytest.mark.slow
def test_a_solver_that_calls_back_from_a_compiled_loop_goes_in_turn(threads):
    traces = []
    for workers in (1, 2):
        threads(workers)
        traces.append(played(problem(shared()), t.FedProxSppm(t.Full(), gamma=0.5, solver=Gradient(lr=0.1, steps=2))))
    same(traces[1].x, traces[0].x)


@pytest.mark.longer
def test_a_mistake_is_the_one_of_the_first_client_that_makes_it(threads):
    def failing(module, batch):
        raise ValueError(f"the rows are {batch[0].shape[0]}")

    sentences = []
    for workers in (1, 2):
        threads(workers)
        with pytest.raises(UserError) as caught:
            t.run(FEDAVG, problem(shared(), failing), rounds=1, engine="nodes", precision="single")
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]


@pytest.mark.tiers(quick=[], longer=["1"])
@pytest.mark.parametrize("workers", [1, 2])
def test_autocast_around_a_run_is_autocast_in_the_loss(threads, workers):
    def within(module, batch):
        with torch.autocast("cpu", torch.bfloat16):
            return loss(module, batch)

    threads(workers)
    wanted, exact = played(problem(shared(), within)), played(problem(shared()))
    with torch.autocast("cpu", torch.bfloat16):
        same(played(problem(shared())).x, wanted.x)
    assert not np.allclose(wanted.x["4.weight"], exact.x["4.weight"], rtol=1e-5, atol=2e-6)
