# %% [markdown]
# # Adapters on a language model
#
# A small language model learns public text. Then eight teams, each with code of its own, adapt it together: once all parameters travel, and once only
# low-rank adapters (LoRA) do. The adapters are saved, and loaded elsewhere. It takes ten minutes, and needs `pip install 'turnout[report]'` but no network.
#
# ## Texts
#
# Python brings text along. The public clients have the docstrings of eight of its modules, and each team has the source code of one other module. A text is 32
# characters, and a client has 128 of them.

# %%
import importlib
import inspect
import tempfile
from pathlib import Path

import altair

import turnout as t
from turnout.data import NaturalSplit, load

altair.renderers.enable("html", template="inline")

PUBLIC = ["collections", "datetime", "email.message", "inspect"]
TEAMS = ["csv", "heapq", "random", "statistics"]
LENGTH, ROWS = 32, 128


def docstrings(module):
    parts = [module, *(value for _, value in inspect.getmembers(module, callable))]
    parts += [value for part in parts if inspect.isclass(part) for _, value in inspect.getmembers(part, callable)]
    return "\n".join(sorted({inspect.getdoc(part) or "" for part in parts}))


def texts(names, of):
    """The texts of some modules, of which each is a client, and which client has which."""
    rows = {"text": [], "module": []}
    for name in names:
        text = of(importlib.import_module(name))
        rows["text"] += [text[k : k + LENGTH] for k in range(0, ROWS * LENGTH, LENGTH)]
        rows["module"] += [name] * ROWS
    data = load(rows, label="", features=["text"], client="module")
    return data, NaturalSplit().split(data)


for title, (data, _) in {"public": texts(PUBLIC, docstrings), "teams": texts(TEAMS, inspect.getsource)}.items():
    print(title, data.texts[:3].tolist())

# %% [markdown]
# ## The base
#
# The network is that of Pythia, with one block of width 32; its tokens are bytes. `FedOpt` lets four of the eight clients make steps of AdamW, and averages what they
# find. The perplexity of a model that knows nothing is about 256, the number of bytes.

# %%
public = t.LanguageModel.of(*texts(PUBLIC, docstrings), "gpt-neox", length=LENGTH, width=16, layers=1, heads=2)
algorithm = t.FedOpt(t.Full(), t.optimisers.AdamW(0.02), t.optimisers.Sgd(1.0), steps=16, batch=8)
options = {"rounds": 16, "metrics": ("perplexity",)}
base = t.run(algorithm, public, **options)
base.frame.select("round", "perplexity", "bytes_up")[::4]

# %% [markdown]
# `save_pretrained` writes a folder that transformers reads too.

# %%
folder = Path(tempfile.mkdtemp())
public.save_pretrained(folder / "base", base.x)
print(*sorted(path.name for path in (folder / "base").iterdir()))

# %% [markdown]
# ## All parameters, or adapters
#
# The teams start from the base. With adapters each matrix W stays as it is, and the model uses W + B A, with B and A of rank 2: these are trained and sent.
# `Frozen("*")` keeps all else as it is.

# %%
teams = t.LanguageModel.of(*texts(TEAMS, inspect.getsource), "gpt-neox", folder=folder / "base", length=LENGTH)
adapted = t.Grouped.of(teams, t.Adapter("*.weight", rank=2), t.Frozen("*"))
runs = {"all parameters": t.run(algorithm, teams, **options), "adapters": t.run(algorithm, adapted, **options)}
for name, trace in runs.items():
    print(
        f"{name}: {trace.ledger.totals()['bytes_up'] / 64:,.0f} bytes a reply, perplexity",
        *trace.columns["perplexity"][::4].round(1),
    )

# %% [markdown]
# All parameters end lower. What does each level cost? The price is the bytes of all messages and replies. Both start from the base, which each team has already:
# its bytes are not in it.

# %%
t.chart(runs, t.Bytes(), metric="perplexity")

# %%
for level in (20, 18, 16, 15, 14, 13, 12):
    for name, trace in runs.items():
        hit = trace.frame.filter(trace.frame["perplexity"] < level)
        print(level, name, f"{hit['bytes_up'][0] + hit['bytes_down'][0]:,} bytes" if len(hit) else "not reached")
