# %% [markdown]
# # A first comparison
#
# This tutorial trains a model with two federated algorithms, looks at what each of them sent, and compares them as a study does: with settings that
# are tuned on some seeds and costs that are reported on others. It takes ten minutes and needs no network, but
# `pip install 'turnout[data,report]'`.
#
# ## A problem
#
# A problem is a loss and the rows of each client. Here it is logistic regression on data of scikit-learn; k-means makes 40 clients whose rows differ.

# %%
import altair
import polars

import turnout as t
from turnout.data import load
from turnout.data.splits import KMeansSplit

# Charts are drawn without a network.
altair.renderers.enable("html", template="inline")

data = load("breast_cancer").normalized("columns")
split = KMeansSplit(clusters=8, clients_per_cluster=5).split(data)
problem = t.Logistic.of(data, split, mu=0.1)
print(f"{problem.clients} clients with {min(split.sizes)} to {max(split.sizes)} rows of {data.features.shape[1]} features")

# %% [markdown]
# ## A run
#
# FedAvg asks a cohort for local gradient steps and averages the replies. The algorithm has its hyper-parameters and a sampler as fields: `t.Nice(8)` draws
# 8 of the 40 clients uniformly, without replacement. The target is met where the squared distance to the minimiser is below 0.02.

# %%
target = t.Target("distance", below=0.02)
fedavg = t.FedAvg(t.Nice(8), lr=0.5, steps=3)
trace = t.run(fedavg, problem, rounds=60, seed=0, target=target)
trace.frame.tail(3)

# %% [markdown]
# A row of the frame has the metrics after a round, and all events up to it: exchanges with clients, contacts of single clients, bytes in both directions,
# gradients. The ledger has them for each place in the algorithm at which clients are asked.

# %%
polars.DataFrame(trace.ledger.rows()).select("method", "exchanges", "contacts", "bytes_down", "bytes_up", "queries_total")

# %% [markdown]
# ## Prices
#
# What a run costs depends on what you pay for. A price is a function of the events.

# %%
for price in (t.Exchanges(), t.Bytes(), t.LinearPrice(exchanges=1.0, contacts=0.1)):
    print(f"{price.label}: {trace.cost(price):.6g}")

# %%
trace.chart(t.Exchanges())

# %% [markdown]
# ## A fair comparison
#
# One seed and one step size tell little. A study plays each method in all settings of a grid, chooses the cheapest setting of each on three seeds, and
# reports its cost on five other seeds. `stratified` draws one client of each cluster.

# %%
study = t.study(
    {
        "title": "Breast cancer",
        "seeds": 5,
        "tuning": {"seeds": 3},
        "run": {"rounds": 80},
        "problems": {"cancer": problem},
        "methods": {
            "fedavg": {
                "algorithm": t.FedAvg(t.Stratified(), lr=0.5, steps=1),
                "grid": {"algorithm.lr": [0.1, 0.3, 1.0, 3.0], "algorithm.steps": [1, 3, 10]},
            },
            "scaffold": {
                "algorithm": t.Scaffold(t.Stratified(), lr=0.5, steps=1),
                "grid": {"algorithm.lr": [0.03, 0.1, 0.3, 1.0], "algorithm.steps": [3, 10, 30]},
            },
            "sppm": {
                "algorithm": t.Sppm(t.Stratified(), gamma=1.0, inner=1, solver=t.solvers.Bfgs()),
                "grid": {"algorithm.gamma": [3.0, 10.0, 30.0, 100.0], "algorithm.inner": [1, 2, 3, 4]},
            },
        },
        "goals": {"near": {"metric": "distance", "below": 0.02}},
        "prices": {"exchanges": t.Exchanges(), "hubs": t.Hierarchical(c1=0.1, c2=1.0)},
    }
)
study.table(price="exchanges")

# %% [markdown]
# The interval of each cost comes from the five seeds. The second price charges a tenth for a further exchange with the same cohort, as inside a hub.
# Nothing is played again for it.

# %%
study.table(price="hubs")

# %% [markdown]
# ## Where to go on
#
# * [Studies](../studies.md) in files, with several processes, and with claims that are checked.
# * [Which algorithm to run at your prices](../plan.md).
# * [An algorithm and a sampler of your own](own_method.py).
