# %% [markdown]
# # PyTorch clients, from a data set to a saved model
#
# Each client has a PyTorch `Dataset`; the result is a module with trained parameters, and a file. It takes ten minutes and needs
# `pip install 'turnout[torch,data,report]'`.
#
# ## Data and module
#
# Ten clients share the digits of scikit-learn, and a fifth of the rows is kept for a test.

# %%
import tempfile
from pathlib import Path

import altair
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import turnout as t

altair.renderers.enable("html", template="inline")
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
order = torch.randperm(len(labels))
train, test = order[360:], order[:360]
datasets = [TensorDataset(images[train[i::10]], labels[train[i::10]]) for i in range(10)]
network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

# %% [markdown]
# ## Clients
#
# A `t.TorchOracle` is a client: a module, a loader of its rows, the mean loss of a batch, and how many rows of a batch are classified correctly. A client
# differentiates its loss; the algorithm decides what is done with the gradients. The parameters live in the run, not in the module.


# %%
def loss(module, batch):
    return nn.functional.cross_entropy(module(batch[0]), batch[1])


def correct(module, batch):
    return (module(batch[0]).argmax(1) == batch[1]).sum()


def client(dataset):
    return t.TorchOracle(network, DataLoader(dataset, batch_size=256), loss, correct)


start = t.parameters_of(network)
problem = t.Remote.of(start, [client(dataset) for dataset in datasets], classifies=True)
held = t.Remote.of(start, [client(TensorDataset(images[test], labels[test]))], classifies=True)

# %% [markdown]
# ## Training
#
# Four of ten clients take part in a round. A PyTorch loss is not compiled by JAX, so the run needs `engine="nodes"`. The run ends where the test accuracy
# reaches 90 %: of an accuracy, a target bounds the share of errors.

# %%
algorithms = {
    "FedAvg": t.FedAvg(t.Nice(4), lr=0.2, batch=20, epochs=2),
    "SCAFFOLD": t.Scaffold(t.Nice(4), lr=0.2, batch=20, epochs=2),
}
traces = {
    name: t.run(
        algorithm,
        problem,
        rounds=25,
        seed=0,
        engine="nodes",
        precision="single",
        test=held,
        metrics=("value", "test_accuracy"),
        target=t.Target("test_accuracy", below=0.1, stop=True),
    )
    for name, algorithm in algorithms.items()
}
for name, trace in traces.items():
    last = trace.frame[-1]
    print(
        name, last["round"][0], "rounds,", f"{last['bytes_up'][0]:,} bytes up,", f"test accuracy {last['test_accuracy'][0]:.3f}"
    )

# %% [markdown]
# SCAFFOLD sends a control variate with every reply, and so twice the bytes of FedAvg in a round.

# %%
traces["FedAvg"].chart(metric="value")

# %% [markdown]
# ## The model
#
# `set_parameters` writes the parameters into the module; `save_model` writes a safetensors file.

# %%
trained = traces["FedAvg"]
t.set_parameters(network, trained.x)
with torch.no_grad():
    print("test accuracy of the module:", float((network(images[test]).argmax(1) == labels[test]).float().mean()))
trained.save_model(Path(tempfile.mkdtemp()) / "digits.safetensors")

# %% [markdown]
# ## Where to go on
#
# * [Clients in NumPy and PyTorch](../clients.md): frozen layers, buffers, dropout, test rows, language models.
# * `turnout new-federation DIR --form torch` writes a project with such clients, which runs here and [over a network](federation.py).
