# %% [markdown]
# # Hubs: when work near the clients pays
#
# Forty hospitals are connected to eight regional hubs by fast links, and the hubs to a server by slow ones. This tutorial asks in seconds what it brings to
# work inside the hubs for a while before the server hears of it. It takes five minutes, and needs
# `pip install 'turnout[data,report]'`.
#
# ## The network
#
# A message and its reply take 2 ms inside a hub, and 100 ms between a hub and the server. A gradient takes half a millisecond. Consecutive hospitals
# belong to the same hub.

# %%
import altair

import turnout as t
from turnout.data import IidSplit, load

altair.renderers.enable("html", template="inline")

data = load("breast_cancer").normalized("columns")
problem = t.Logistic.of(data, IidSplit(clients=40).split(data), mu=0.1)
network = {
    "hubs": t.Hubs(8, latency=0.1, bandwidth_up=1.25e6, bandwidth_down=1.25e6),
    "devices": t.Devices(seconds_per_query=0.0005, latency=0.002),
}

# %% [markdown]
# ## Three ways to train
#
# * FedAvg makes every exchange with the server.
# * `InHubs` lets each hub make several rounds of FedAvg with its own hospitals, and the server takes the mean of what the hubs found.
# * The same with SPPM: each hub solves a proximal problem with its cohort, which takes a few exchanges inside the hub.

# %%
fedavg = t.FedAvg(t.Full(), lr=2.0)
methods = {
    "FedAvg, every exchange with the server": fedavg,
    "FedAvg, 8 rounds in hubs": t.InHubs(fedavg, rounds=8),
    "SPPM in hubs": t.InHubs(t.Sppm(t.Full(), t.solvers.Lbfgs(), gamma=30.0, inner=4), rounds=2),
}
runs = {name: t.run(method, problem, rounds=20, metrics=("distance",), **network) for name, method in methods.items()}
for name, trace in runs.items():
    totals = trace.ledger.totals()
    print(f"{name}: 20 rounds are {totals['exchanges']} exchanges inside hubs", end=" and ")
    print(f"{totals['server_exchanges']} with the server, in {trace.frame['seconds'][-1]:.2f} s")

# %% [markdown]
# The clock is that of the devices and links, so that the seconds are the same on every machine. A round takes little longer if each hub makes eight exchanges
# with its hospitals in it: the link to the server takes the time.
#
# ## Seconds to a model
#
# How long does each take until the squared distance to the best model is below 0.01, and below 0.001?


# %%
def seconds_to(trace, level):
    """The seconds on the clock after which the distance is below a level, in words."""
    near = trace.frame.filter(trace.frame["distance"] < level)
    return f"{near['seconds'][0]:.2f} s" if len(near) else "never"


for name, trace in runs.items():
    print(f"{name}: {seconds_to(trace, 0.01)} to 0.01, {seconds_to(trace, 0.001)} to 0.001")

# %% [markdown]
# Work in hubs reaches the first level after one exchange with the server. It never reaches the second: the mean of what eight hubs find for their own patients
# is near the minimum of all, and not at it. The more the hubs differ, and the longer they work by themselves, the further away it is. So take hubs for a good
# model soon, and fewer rounds in hubs, or none, for an exact one.
#
# ## Each link by itself
#
# `trace.ledger.links()` counts each link. One vector goes up for each hub and exchange with the server, since the hubs add their hospitals' replies.

# %%
for name, trace in runs.items():
    (link,) = trace.ledger.links()
    print(f"{name}: {link['server_bytes_up']:,} bytes to the server in {link['server_exchanges']} exchanges")

# %% [markdown]
# ## As a picture

# %%
runs["FedAvg, every exchange with the server"].chart(t.Clock(), metric="distance")

# %% [markdown]
# ## Next
#
# One run says little: the study of the page [Hubs](../hubs.md) tunes each method, plays twenty seeds, and gives intervals. The same page starts the hubs as processes.
