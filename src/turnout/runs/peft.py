"""Adapters in the files of PEFT: adapter_model.safetensors and adapter_config.json."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from turnout.core.errors import UserError
from turnout.core.leaf_names import leaves_by_name
from turnout.core.seeds import host_key
from turnout.io.atomic import write
from turnout.problems.adapters.adapted import Adapted
from turnout.problems.adapters.sites import KERNEL, Site
from turnout.problems.base import Problem
from turnout.problems.grouped import Grouped

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"

PREFIX, SUFFIX = "base_model.model.", ".weight"
"""What PEFT puts around the name of a module."""

UNREAD = ("use_dora", "use_rslora", "alora_invocation_tokens")
"""Entries of a configuration that change what A and B mean."""


def save_peft(folder: Path | str, x: PyTree, problem: Problem) -> None:
    """Write the adapters of a model as PEFT does, so that `PeftModel.from_pretrained` reads them.

    Args:
        folder: The folder, which is made if needed.
        x: Parameters, such as `trace.x`.
        problem: The problem with the adapters.

    Raises:
        UserError: The problem has no adapters, one is not of the weight of a module, or the folder cannot be written.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=4).split(data), model="perceptron", hidden=16)
        >>> problem = t.Grouped.of(problem, t.Adapter("layers.hidden", rank=2, inputs_first=True))
        >>> trace = t.run(t.FedAvg(t.Full(), lr=0.1), problem, rounds=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     t.save_peft(folder, trace.x, problem)
        ...     start = t.load_peft(folder, problem)
        >>> bool(np.array_equal(start["layers.hidden.weight.lora_B"], trace.x["layers.hidden.weight.lora_B"]))
        True
    """
    # Slow to import.
    from safetensors.numpy import save

    folder, sites = Path(folder), _adapted(problem, "save_peft").sites
    if any(site.trained == "stacked" for site in sites):
        raise UserError("stacked adapters are merged into their matrices in each round: save the model in the place of them")
    arrays = {}
    for site in sites:
        for name, leaf, shape in _entries(site):
            arrays[name] = np.ascontiguousarray(np.asarray(x[leaf]).reshape(shape))
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / WEIGHTS, save(arrays, {"format": "pt"}))
    write(folder / CONFIG, json.dumps(_config(sites), indent=2))


def load_peft(folder: Path | str, problem: Problem, x: PyTree = None) -> dict[str, Any]:
    """Return the parameters, by name, of a model with the adapters that PEFT or `save_peft` wrote, to start a run with.

    Args:
        folder: The folder.
        problem: The problem with the same adapters.
        x: Parameters of the model without adapters; None for those that a run with the seed 0 starts with.

    Raises:
        UserError: The files cannot be read, or hold the adapters of another model, of another rank or of another kind.

    Examples:
        >>> import tempfile
        >>> import turnout as t
        >>> from turnout.data import IidSplit, load
        >>> data = load("digits")
        >>> problem = t.Neural.of(data, IidSplit(clients=4).split(data), model="perceptron", hidden=16)
        >>> problem = t.Grouped.of(problem, t.Adapter("*", rank=2, inputs_first=True))
        >>> trace = t.run(t.FedAvg(t.Full(), lr=0.1), problem, rounds=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     t.save_peft(folder, trace.x, problem)
        ...     again = t.run(t.FedAvg(t.Full(), lr=0.1), problem, rounds=1, start=t.load_peft(folder, problem, trace.x))
        >>> again.metrics["value"] < trace.metrics["value"]
        True
    """
    # Slow to import.
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    folder, adapted = Path(folder), _adapted(problem, "load_peft")
    try:
        config, arrays = json.loads((folder / CONFIG).read_text()), load_file(folder / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(f"{folder} has no adapters of PEFT that can be read ({error}): give a folder of PEFT") from None
    _check_config(folder, config, adapted.sites)
    entries = {name: (leaf, shape) for site in adapted.sites for name, leaf, shape in _entries(site)}
    for name in sorted(entries.keys() ^ arrays.keys()):
        here, there = ("no", "one") if name in entries else ("an array", "none")
        raise UserError(
            f"{folder} holds adapters of another model: it has {here} {name!r}, and the problem's has {there}; name the same "
            "matrices"
        )
    for name, (_, shape) in entries.items():
        if arrays[name].shape != shape:
            raise UserError(
                f"{folder} holds adapters of another model: {name!r} has the shape {arrays[name].shape} there, and {shape} here; "
                "give the same rank and model"
            )
    with jax.enable_x64(problem.precision == "double"):
        first = adapted.start(host_key(0)) if x is None else leaves_by_name(x)
    return {**first, **{leaf: arrays[name].reshape(shape[0], -1) for name, (leaf, shape) in entries.items()}}


def _adapted(problem: Problem, what: str) -> Adapted:
    """Return the problem of the model with adapters."""
    whole = problem.inside if isinstance(problem, Grouped) else problem
    if not isinstance(whole, Adapted):
        raise UserError(f"{what} is about adapters, and the problem has none: give Grouped.of an Adapter")
    return whole


def _module(site: Site) -> str:
    if not site.name.endswith(SUFFIX):
        raise UserError(f"PEFT names modules, and {site.name} is not the weight of one: call it {site.name}{SUFFIX}")
    return site.name.removesuffix(SUFFIX)


def _entries(site: Site) -> list[tuple[str, str, tuple[int, ...]]]:
    """Return for A and for B the name in PEFT's file, that of the leaf, and the shape in the file."""
    kernel = len(site.shape) == KERNEL
    a = (site.rank, *site.shape[1:]) if kernel else (site.rank, site.inputs)
    b = (site.outputs, site.rank, *((1, 1) if kernel else ()))
    name = PREFIX + _module(site)
    return [(f"{name}.lora_A{SUFFIX}", site.a, a), (f"{name}.lora_B{SUFFIX}", site.b, b)]


def _config(sites: tuple[Site, ...]) -> dict[str, Any]:
    """Return the configuration of PEFT: the rank and the weight of the first adapter, and of others by their names."""
    first = sites[0]
    return {
        "peft_type": "LORA",
        "task_type": None,
        "base_model_name_or_path": None,
        "inference_mode": True,
        "r": first.rank,
        "lora_alpha": first.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": any(site.inputs_first for site in sites),
        "target_modules": [_module(site) for site in sites],
        "rank_pattern": {_module(site): site.rank for site in sites if site.rank != first.rank},
        "alpha_pattern": {_module(site): site.alpha for site in sites if site.alpha != first.alpha},
    }


def _check_config(folder: Path, config: dict[str, Any], sites: tuple[Site, ...]) -> None:
    """Raise `UserError` where a configuration of PEFT is of adapters of another kind, or with another factor."""
    changed = [name for name in UNREAD if config.get(name)]
    if config.get("peft_type") != "LORA" or changed:
        kind = changed[0] if changed else config.get("peft_type")
        raise UserError(f"{folder} holds adapters of the kind {kind}, which are not read here: give plain ones, of LORA")
    for site in sites:
        module = _module(site)
        rank = (config.get("rank_pattern") or {}).get(module, config.get("r"))
        alpha = (config.get("alpha_pattern") or {}).get(module, config.get("lora_alpha"))
        if (rank, alpha) != (site.rank, site.alpha):
            raise UserError(
                f"the adapter of {site.name} in {folder} has the rank {rank} and alpha {alpha}, and the problem's "
                f"{site.rank} and {site.alpha:g}: give Adapter these"
            )
