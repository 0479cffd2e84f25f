"""The personal leaves of the clients of a run, in a file of its own, and the whole model of one client."""

from pathlib import Path

import numpy as np

from turnout.core.errors import UserError
from turnout.io.atomic import write
from turnout.runs.trace import Trace

PERSONAL, MODEL = "personal.safetensors", "model.safetensors"


def write_personal(folder: Path, trace: Trace, clients: int) -> None:
    """Write the personal leaves of all clients [n, ...] by name; nothing where clients have none, or only they know them.

    Args:
        folder: Folder of the results.
        trace: The trace of the run.
        clients: n.
    """
    if trace.own is None:
        return
    # Slow to import.
    from safetensors.numpy import save

    each = [trace.own(i) for i in range(clients)]
    write(folder / PERSONAL, save({name: np.stack([np.asarray(own[name]) for own in each]) for name in each[0]}))


def write_model_of(folder: Path, client: int, out: Path | None) -> Path:
    """Write the model of a client, with what `model.safetensors` tells beside its numbers, and return the file.

    Args:
        folder: Folder of the results.
        client: Number of the client.
        out: The file; None for model-CLIENT.safetensors in the folder.

    Raises:
        UserError: The run is not finished, has no personal leaves, or not so many clients.
    """
    # Slow to import.
    from safetensors import safe_open
    from safetensors.numpy import save

    if not (folder / MODEL).exists():
        raise UserError(f"{folder} has no {MODEL}: give the folder of a finished run")
    if not (folder / PERSONAL).exists():
        raise UserError(
            f"{folder} has no {PERSONAL}: all clients of the run use {MODEL}, or their personal leaves are at their nodes"
        )
    with safe_open(folder / MODEL, "numpy") as whole, safe_open(folder / PERSONAL, "numpy") as personal:
        names = [*personal.keys()]
        clients = personal.get_slice(names[0]).get_shape()[0]
        if client >= clients:
            raise UserError(f"the run has clients 0 to {clients - 1}, so that there is no client {client}")
        arrays = {name: whole.get_tensor(name) for name in whole.keys()}  # noqa: SIM118
        own = {name: np.ascontiguousarray(personal.get_slice(name)[client : client + 1][0]) for name in names}
        metadata = whole.metadata()
    target = out or folder / f"model-{client}.safetensors"
    write(target, save(arrays | own, metadata))
    return target
