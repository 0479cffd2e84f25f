"""The peers with their versions, and an environment for each, which is made on first use."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from turnout.core.errors import UserError
from turnout.vectors.environments import environment

VARIABLE = "TURNOUT_PEERS"
"""Environment variable: the folder of the environments; default: turnout-peers in the user's cache folder."""

TORCH = ("torch==2.13.0", "numpy==2.4.6")

INSTALL_SECONDS = 1800.0
"""How long pip may take for one environment."""


@dataclass(frozen=True)
class Peer:
    """A program `benchmarks.peers.NAME`, what its environment holds, and the workloads that it plays.

    Without packages it runs in this environment. Packages of `alone` are installed without their dependencies, and whatever
    Python they ask for. A peer that draws cohorts of its own is compared with turnout's runs over several seeds.
    """

    name: str
    title: str
    packages: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    draws: bool = False
    workloads: tuple[str, ...] = ("W1", "W2", "W3")


PEERS = (
    Peer("turnout_nodes", "turnout, PyTorch clients", workloads=("W3",)),
    Peer("jax_scan", "bare JAX scan", workloads=("W1", "W2")),
    Peer("numpy_batched", "NumPy, cohort batched", workloads=("W1", "W2")),
    Peer("numpy_loop", "NumPy, loop over clients", workloads=("W1", "W2")),
    Peer("torch_loop", "bare PyTorch loop"),
    Peer("fedlab", "FedLab", ("fedlab==1.3.0", *TORCH)),
    # The newest releases that its use of JAX's older names allows.
    Peer("fedjax", "fedjax", ("fedjax==0.0.17", "jax==0.4.23", "jaxlib==0.4.23", "dm-haiku==0.0.12", "optax==0.1.9",
                              "numpy==1.26.4", "scipy==1.12.0")),
    Peer("pfl", "pfl-research", ("pfl==0.6.0", *TORCH)),
    # It asks for Python 3.12, but uses nothing that 3.11 lacks.
    Peer("blazefl", "BlazeFL", (*TORCH, "tqdm==4.67.1"), alone=("blazefl==2.0.3",)),
    Peer("fluke", "fluke", ("fluke-fl==0.8.1", *TORCH)),
    Peer("flower", "Flower, simulation", ("flwr[simulation]==1.42.0", *TORCH), draws=True),
)  # fmt: skip
OURS = Peer("turnout", "turnout")


def folder() -> Path:
    """Return the folder of the environments."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(VARIABLE) or Path(cache) / "turnout-peers")


def python_of(peer: Peer) -> str:
    """Return the Python of a peer's environment, which is made unless the folder has it with the same versions.

    Raises:
        UserError: If pip cannot install the packages.
    """
    if not peer.packages:
        return sys.executable
    try:
        return str(environment(folder() / peer.name, peer.packages, INSTALL_SECONDS, alone=peer.alone))
    except UserError as error:
        raise UserError(f"{peer.title} cannot be installed here: {error}") from None
