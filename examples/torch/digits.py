"""A PyTorch network trained by ten clients, four of them a round: `python examples/torch/digits.py`."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import turnout as t
from turnout.problems.oracles.torch_module import TorchOracle, parameters_of

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8), torch.tensor(labels)
network = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1), nn.Linear(144, 10))


def loss(module, batch):
    return nn.functional.cross_entropy(module(batch[0]), batch[1])


def right(module, batch):
    return (module(batch[0]).argmax(1) == batch[1]).sum()


loaders = [DataLoader(TensorDataset(images[i::10], labels[i::10]), batch_size=256) for i in range(10)]
clients = [TorchOracle(network, loader, loss, right) for loader in loaders]
problem = t.Remote.of(parameters_of(network), clients, classifies=True)
trace = t.run(t.FedAvg(t.Nice(4), lr=0.2, batch=20, epochs=2), problem, rounds=15, engine="nodes", precision="single")
print(trace.frame.select("round", "value", "accuracy"))
