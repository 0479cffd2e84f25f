# %% [markdown]
# # From simulation to a real federation
#
# The same configuration runs as one compiled program, and over a network, where each site has its own key and nobody sees its rows. This tutorial does
# both on one machine, with the commands that are used on several. It takes ten minutes and needs `pip install 'turnout[flower,data,report]'`.
#
# ## A configuration
#
# Three hospitals train logistic regression; each round asks two of them.

# %%
import os
import subprocess
import tempfile
from pathlib import Path

# A new folder, so that nothing of yours is changed, and output as in a file.
os.chdir(tempfile.mkdtemp())
os.environ |= {"COLUMNS": "110", "FORCE_COLOR": ""}


def sh(commands):
    """Run commands as a terminal does, and print what they print."""
    print(subprocess.run(commands, shell=True, check=True, text=True, stdout=subprocess.PIPE).stdout)


_ = Path("hospitals.toml").write_text("""
[problem]
kind = "logistic"
data = "breast_cancer"
normalize = "columns"
mu = 0.1

[split]
kind = "iid"
clients = 3
seed = 0

[sampler]
kind = "nice"
size = 2

[algorithm]
kind = "fedavg"
lr = 0.3
steps = 5

[run]
rounds = 10
metrics = ["value", "distance"]
""")

# %% [markdown]
# ## In simulation
#
# `describe` foretells what a run sends, and `run` simulates it.

# %%
sh("turnout describe hospitals.toml")
sh("turnout run hospitals.toml --out simulated")

# %% [markdown]
# ## Keys
#
# The operator makes certificates for the SuperLink, which passes messages on. Each site makes its own private key, which never leaves it, and sends a request
# to sign. The operator registers the requests: they are the clients 0, 1 and 2.

# %%
sh("""
turnout certify keys --host 127.0.0.1 --clients 0
for site in north east south; do
    turnout node --request $site.csr
    turnout register keys $site.csr
done
turnout members keys
""")

# %% [markdown]
# ## The processes
#
# On several machines, each of these commands runs on its own: the SuperLink at the operator's, a node at each site. Here they run in the background.

# %%
PORT = "19092"
NODE = "turnout node hospitals.toml --client {} --superlink 127.0.0.1:{} --authority keys/ca.crt --key {}.key --states states-{}"
commands = {"superlink": f"turnout superlink keys --host 127.0.0.1 --port {PORT}"}
commands |= {site: NODE.format(number, PORT, site, site) for number, site in enumerate(("north", "east", "south"))}
running = {}
for name, command in commands.items():
    print(command)
    log = open(f"{name}.log", "w")
    running[name] = subprocess.Popen(command.split(), stdout=log, stderr=log)

# %% [markdown]
# ## The run
#
# `serve` waits for the nodes, plays the rounds, and writes the same files as `run`.

# %%
sh("turnout serve hospitals.toml --superlink 127.0.0.1:19092 --keys keys --out served")

# %%
for process in running.values():
    process.terminate()
print({name: process.wait() for name, process in running.items()})

# %% [markdown]
# ## The same numbers
#
# The compiled program and the federation draw the same clients and compute the same steps.

# %%
import polars as pl

columns = ["round", "value", "distance", "exchanges", "bytes_up"]
simulated, served = (pl.read_parquet(f"{name}/trace.parquet") for name in ("simulated", "served"))
print(served.select(columns).tail(3))
difference = (simulated["distance"] - served["distance"]).abs().max()
print("largest difference of the distances:", difference)
assert difference < 1e-10 and simulated["bytes_up"].equals(served["bytes_up"])

# %% [markdown]
# Each node keeps a log of what it was asked and what it answered. `audit` shows it, and ends with an error where a line was changed.

# %%
subprocess.run(["turnout", "audit", "states-north"], stdout=subprocess.DEVNULL, check=True)
entries = Path("states-north/audit-0.jsonl").read_text().splitlines()
print(len(entries), "requests, all as the node wrote them")

# %% [markdown]
# ## Where to go on
#
# * [Deployment](../deploy.md): policies of sites, members that come and go, killed processes, what an exchange takes.
# * [What the server learns](../privacy.md), sums that nobody can take apart, and differential privacy.
# * [Threats](../security.md), and what is promised against them.
