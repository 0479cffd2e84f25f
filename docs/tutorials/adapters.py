# %% [markdown]
# # Adapters on a language model
#
# A small language model learns public text. Then four teams, each with code of its own, adapt it together: once all parameters travel, and once only
# low-rank adapters (LoRA) do. The adapters are saved, and loaded elsewhere. It takes ten minutes, and needs `pip install 'turnout[report]'` but no network.
#
# ## Texts
#
# Python brings text along. Each public client has the docstrings of one of its modules, and each team the source code of another one. A text is 32
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
    """The first texts of some modules, and the split with a client for each module."""
    rows = {"text": [], "module": []}
    for name in names:
        text = of(importlib.import_module(name))
        rows["text"] += [text[k : k + LENGTH] for k in range(0, ROWS * LENGTH, LENGTH)]
        rows["module"] += [name] * ROWS
    data = load(rows, label="", features=["text"], client="module")
    return data, NaturalSplit().split(data)


public_texts, team_texts = texts(PUBLIC, docstrings), texts(TEAMS, inspect.getsource)
print(public_texts[0].texts[20:23].tolist())
print(team_texts[0].texts[20:23].tolist())

# %% [markdown]
# ## The base
#
# The network is that of Pythia with one block of width 16, and its tokens are bytes. With `FedOpt` each client makes 16 steps of AdamW, and the server takes the
# mean of what they find. The perplexity begins near 256, as many as there are bytes.

# %%
public = t.LanguageModel.of(*public_texts, "gpt-neox", length=LENGTH, width=16, layers=1, heads=2)
algorithm = t.FedOpt(t.Full(), t.optimisers.AdamW(0.02), t.optimisers.Sgd(1.0), steps=16, batch=8)
base = t.run(algorithm, public, rounds=16, metrics=("perplexity",))
base.frame.select("round", "perplexity", "bytes_up")[::4]

# %% [markdown]
# `save_pretrained` writes a folder that transformers reads too.

# %%
folder = Path(tempfile.mkdtemp())
public.save_pretrained(folder / "base", base.x)

# %% [markdown]
# ## All parameters, or adapters
#
# The teams start from the base. With adapters each matrix W stays as it is, and the model uses W + B A with B and A of rank 2, which are trained and sent in its
# place. `Frozen("*")` keeps all other parameters as they are.

# %%
teams = t.LanguageModel.of(*team_texts, "gpt-neox", folder=folder / "base", length=LENGTH)
lora = t.Adapter("*.weight", rank=2), t.Frozen("*")
adapted = t.Grouped.of(teams, *lora)
problems = {"all parameters": teams, "adapters": adapted}
runs = {name: t.run(algorithm, problem, rounds=16, metrics=("perplexity",)) for name, problem in problems.items()}
for name, trace in runs.items():
    totals, perplexity = trace.ledger.totals(), trace.columns["perplexity"]
    print(f"{name}: perplexity {perplexity[0]:.1f}, then {perplexity[-1]:.1f}", end=" for ")
    print(f"{totals['bytes_up'] // totals['contacts']:,} bytes a reply and {totals['queries_total']:,} gradients")

# %% [markdown]
# Adapters make a message small, but all parameters can learn more. So which is cheaper depends on how far you go. The price here is the bytes of all messages and
# replies; that every team once got the base is not in it.


# %%
def bytes_to(trace, level):
    """The bytes of all messages and replies until the perplexity is below a level, in words."""
    near = trace.frame.filter(trace.frame["perplexity"] < level)
    return f"{t.Bytes().cost(near)[0]:,}" if len(near) else "never"


start = runs["adapters"].columns["perplexity"][0]
for share in (0.9, 0.8, 0.7, 0.6, 0.5):
    print(
        f"perplexity {share * start:.1f}:",
        *(f"{name} {bytes_to(trace, share * start)}" for name, trace in runs.items()),
        sep="  ",
    )

# %% [markdown]
# `chart` draws several runs against one price.

# %%
t.chart(runs, t.Bytes(), metric="perplexity")

# %% [markdown]
# Where you pay for gradients or for exchanges, adapters save nothing: both runs make equally many, and all parameters get lower.
#
# ## Elsewhere
#
# `save_peft` writes the adapters in the files of PEFT. Who has the base needs no more than these. `merged` is the model with W + B A, for those who do not know adapters.

# %%
t.save_peft(folder / "adapters", runs["adapters"].x, adapted)
teams.save_pretrained(folder / "merged", adapted.merged(runs["adapters"].x))
for name, file in {"adapters": "adapter_model.safetensors", "merged": "model.safetensors"}.items():
    print(f"{name}: {(folder / name / file).stat().st_size:,} bytes")

# %% [markdown]
# A run begins with the perplexity of its first model, so that one round shows what was loaded.

# %%
loaded = t.Grouped.of(t.LanguageModel.of(*team_texts, "gpt-neox", folder=folder / "base", length=LENGTH), *lora)
merged = t.LanguageModel.of(*team_texts, "gpt-neox", folder=folder / "merged", length=LENGTH)
begun = {
    "adapters": t.run(algorithm, loaded, rounds=1, metrics=("perplexity",), start=t.load_peft(folder / "adapters", loaded)),
    "merged": t.run(algorithm, merged, rounds=1, metrics=("perplexity",)),
}
last = runs["adapters"].columns["perplexity"][-1]
print(f"trained: perplexity {last:.4f}")
for name, trace in begun.items():
    print(f"{name}: perplexity {trace.columns['perplexity'][0]:.4f}")
    assert abs(trace.columns["perplexity"][0] - last) < 1e-3

# %% [markdown]
# ## Where to go on
#
# * [Adapters](../adapters.md): their mean over clients, other ways to train them, ranks that differ between clients.
# * [Language models](../models.md#language-models) with weights and tokenizers from folders, such as Pythia's.
# * One seed and one step size tell little: [a study](../studies.md) tunes both ways, and takes `groups` of each method.
