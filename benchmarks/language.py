"""A language model: rounds of the compiled network beside those of PyTorch clients with the same weights and texts."""

import tempfile
from pathlib import Path
from statistics import median

import jax
import numpy as np
import torch
import transformers

import turnout as t
from benchmarks.timing import SEED, Line, alternate, ratio, seconds
from turnout.core.seeds import Seeds
from turnout.data import Dataset
from turnout.data.splits import Split
from turnout.data.text import text_clients
from turnout.problems.language.tokens import Utf8
from turnout.problems.optimum import Optimum
from turnout.problems.oracles.torch_module import parameters_of
from turnout.runs.session import Session
from turnout.runs.setup import scope

SETTINGS = {
    "clients": 8,
    "texts": 20,
    "length": 64,
    "cohort": 4,
    "batch": 10,
    "epochs": 1,
    "lr": 0.1,
    "rounds": 2,
    "seeds": [SEED],
}

SMALL = {"width": 32, "layers": 2, "heads": 4, "vocabulary": 256}
LARGER = {"width": 128, "layers": 2, "heads": 4, "vocabulary": 8192}


def measure() -> list[Line]:
    """Return the seconds of a round of PyTorch clients over those of a compiled round, for two networks."""
    return [line("small network, 256 tokens", SMALL), line("larger network, 8,192 tokens", LARGER)]


def line(what: str, numbers: dict[str, int]) -> Line:
    """Return the ratio of the seconds that rounds take with PyTorch clients to those compiled."""
    data = texts()
    split = Split.of(np.arange(data.rows).reshape(SETTINGS["clients"], -1), data.rows)
    problem = t.LanguageModel.of(data, split, "gpt-neox", length=SETTINGS["length"], **numbers)
    with tempfile.TemporaryDirectory() as folder:
        problem.save_pretrained(
            Path(folder), jax.tree.map(lambda leaf: leaf.astype("float32"), problem.start(jax.random.key(SEED)))
        )
        module = transformers.GPTNeoXForCausalLM.from_pretrained(folder).train()

    def tokenize(texts, truncation, max_length):
        return {"input_ids": Utf8().tokens(texts, max_length)}

    clients = text_clients(module, tokenize, data.texts.tolist(), None, split, SETTINGS["length"])
    remote = t.Remote.of(parameters_of(module), clients)
    taken = alternate({"compiled": played(problem, "compiled"), "torch": played(remote, "nodes")})
    each = {name: 1000 * median(times) / SETTINGS["rounds"] for name, times in taken.items()}
    note = f"{each['torch']:.3g} against {each['compiled']:.3g} ms a round, {torch.get_num_threads()} threads"
    settings = {**SETTINGS, **numbers}
    return Line("language", f"a round of PyTorch clients over a compiled one, {what}", ratio(taken, "torch", "compiled"),
                note=note, settings=settings, timings=taken)  # fmt: skip


def texts() -> Dataset:
    """Return texts of made words, all longer than they are cut to."""
    generator = np.random.default_rng(SEED)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz "))
    rows = SETTINGS["clients"] * SETTINGS["texts"]
    made = ["".join(generator.choice(letters, SETTINGS["length"] + 10)) for _ in range(rows)]
    return Dataset("made", np.zeros((rows, 1)), np.zeros(rows), texts=np.array(made, object))


def played(problem: t.Problem, engine: str):
    """Return what plays some rounds and gives their seconds."""
    algorithm = t.FedAvg(t.Nice(SETTINGS["cohort"]), **{name: SETTINGS[name] for name in ("lr", "batch", "epochs")})
    # Runs want a metric, and of those this one costs next to nothing.
    with scope("single"):
        start = problem.start(jax.random.key(SEED))
    session = Session(
        algorithm, problem, seeds=Seeds.of(SEED), rounds=10**6, every=SETTINGS["rounds"], metrics=("distance",),
        optimum=Optimum(start, 0.0), engine=engine, precision="single",
    )  # fmt: skip

    def play() -> None:
        session.progress, _ = session.engine.advance(session.progress, session.rounds, 1)
        jax.block_until_ready(session.progress.server)

    def timed() -> float:
        with scope("single"):
            return seconds(play)

    return timed
