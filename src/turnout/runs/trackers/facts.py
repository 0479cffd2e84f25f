"""What trackers are told of a run."""

from dataclasses import fields, is_dataclass
from typing import Any

from turnout.runs.session import Session


def parameters(session: Session) -> dict[str, Any]:
    """Return the algorithm's fields by dotted names, such as "sampler.size", with the names of classes, and the run's options."""
    options = {f.name: getattr(session.options, f.name) for f in fields(session.options) if f.repr}
    plain = {name: value for name, value in options.items() if isinstance(value, (int, float, str))}
    return {**_flat("algorithm", session.algorithm), "clients": session.problem.clients, **plain}


def end_of(session: Session) -> str:
    """Return "finished", "interrupted", or "diverged"."""
    if session.trace.diverged is not None:
        return "diverged"
    return "finished" if session.over else "interrupted"


def _flat(name: str, value: Any) -> dict[str, Any]:
    if not is_dataclass(value):
        return {name: value if isinstance(value, (int, float, str)) else str(value)}
    parts = [_flat(f"{name}.{f.name}", getattr(value, f.name)) for f in fields(value) if f.repr]
    return {name: type(value).__name__} | {key: value for part in parts for key, value in part.items()}
