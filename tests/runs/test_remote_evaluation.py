"""Test rows and held-out clients whose losses are no JAX functions: what a run tells of them, against NumPy."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import turnout as t

TARGETS = [np.array([1.0, 2.0]), np.array([3.0, -1.0]), np.array([-2.0, 0.5])]


def oracle(b: np.ndarray, size: int) -> t.NumpyOracle:
    """The loss |x - b|^2 / 2, and as rows "classified correctly" those whose number is below x_0."""
    return t.NumpyOracle(
        lambda x, rows: (x - b) @ (x - b) / 2, lambda x, rows: x - b, size=size, correct=lambda x, rows: np.arange(size) < x[0]
    )


def remote(targets: list, sizes: list[int]) -> t.Remote:
    clients = [oracle(b, size) for b, size in zip(targets, sizes, strict=True)]
    return t.Remote.of(np.zeros(2), clients, classifies=True)


@pytest.mark.longer
def test_clients_that_are_only_evaluated_tell_their_values_and_accuracies():
    train, test, held_out = remote(TARGETS[:2], [4, 4]), remote(TARGETS[1:], [4, 8]), remote(TARGETS, [2, 4, 8])
    metrics = ("value", "test_value", "test_accuracy", "held_out_value", "held_out_accuracy", "held_out_accuracy_50")
    options = {"rounds": 3, "engine": "nodes", "metrics": metrics, "test": test, "held_out": held_out}
    trace = t.run(t.Gd(t.Full(), lr=0.5), train, **options)
    x, mean = np.zeros(2), np.mean(TARGETS[:2], axis=0)
    for row in trace.frame.iter_rows(named=True):
        loss = [(x - b) @ (x - b) / 2 for b in TARGETS]
        accuracy = {size: np.mean(np.arange(size) < x[0]) for size in (2, 4, 8)}
        expected = {
            "value": np.mean(loss[:2]),
            "test_value": np.mean(loss[1:]),
            "test_accuracy": np.mean([accuracy[4], accuracy[8]]),
            # Held-out clients count by their numbers of rows.
            "held_out_value": np.dot([2, 4, 8], loss) / 14,
            "held_out_accuracy": np.dot([2, 4, 8], [accuracy[2], accuracy[4], accuracy[8]]) / 14,
            "held_out_accuracy_50": np.median([*accuracy.values()]),
        }
        assert {name: row[name] for name in metrics} == pytest.approx(expected)
        x = x - 0.5 * (x - mean)


@pytest.mark.slow
def test_pytorch_clients_stop_early_by_their_test_data():
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(16, 3, generator=generator) for _ in range(3)]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)

    def client(inputs: torch.Tensor) -> t.TorchOracle:
        labels = (inputs.sum(dim=1) > 0).long()
        loader = DataLoader(TensorDataset(inputs, labels), batch_size=16)
        return t.TorchOracle(model, loader, lambda module, batch: cross_entropy(module(batch[0]), batch[1]))

    train = t.Remote.of(t.parameters_of(model), [client(inputs) for inputs in rows[:2]])
    test = t.Remote.of(t.parameters_of(model), [client(rows[2])])
    best = t.BestParameters("test_value")
    options = {"rounds": 30, "engine": "nodes", "metrics": ("value", "test_value"), "test": test, "precision": "single"}
    trace = t.run(t.Gd(t.Full(), lr=8.0), train, callbacks=[best, t.EarlyStopping("test_value", patience=2)], **options)
    values = trace.columns["test_value"]
    assert len(values) < 31 and best.value == values.min() and best.round == np.argmin(values) == len(values) - 3
