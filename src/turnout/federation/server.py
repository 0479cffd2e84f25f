"""The server of a federation that plays a configuration."""

from functools import partial
from pathlib import Path

from turnout.core.errors import UserError
from turnout.engines.flower.engine import Flower, Member, Post, meet
from turnout.experiment.config import Experiment, read
from turnout.experiment.run import CHECKPOINT, CONFIG, SUMMARY, Watch, resume, start
from turnout.federation.handshake import elsewhere, terms_of

PATIENCE = 120.0
"""Seconds within which all nodes have to say hello."""


def met(
    grid, experiment: Experiment, data: Path | None, deadline: float, patience: float = PATIENCE
) -> tuple[Post, dict[int, Member]]:
    """Meet all clients of `experiment`, for at most `patience` seconds; an exchange may last `deadline` seconds."""
    post, built = Post(grid, deadline), elsewhere(experiment, data)
    return post, meet(post, terms_of(experiment, built), built.problem.clients, patience)


def play(post: Post, members: dict[int, Member], file: Path, out: Path, data: Path | None, watch: Watch, command: str) -> None:
    """Play the configuration `file` with `members` in the folder `out`, or go on with what it holds of that."""
    engine = partial(Flower, post, members, (out / CHECKPOINT).exists())
    sizes = [members[i].rows for i in range(len(members))]
    if (out / CONFIG).exists() and not (out / SUMMARY).exists():
        if read(out / CONFIG).to_toml() != read(file).to_toml():
            raise UserError(f"{out} holds an unfinished run of another configuration than {file}: choose another --out")
        resume(out, data, watch, command, engine, sizes)
    else:
        start(read(file), out, data, watch, command, engine, sizes)
