"""The studies of the papers, which are shipped with turnout."""

from pathlib import Path
from typing import Any

from turnout.core.errors import UserError, unknown
from turnout.experiment.toml_file import read_toml
from turnout.studies.sources import Source, read_source

PAPERS = Path(__file__).parents[1] / "papers"


def papers() -> dict[str, str]:
    """Return the titles of the studies by name."""
    return {path.parent.name: read_toml(path)[1]["title"] for path in sorted(PAPERS.glob("*/study.toml"))}


def listing() -> str:
    """Return the papers' studies with their problems and how long they take, and how one is played."""
    lines = []
    for name, title in papers().items():
        tables = read_source(PAPERS / name).tables
        lines += [f"{name}: {title}", f"  problems: {', '.join(tables['problems'])}", f"  takes {tables['duration']}"]
    return "\n".join([*lines, "play one: turnout reproduce NAME --out DIR; copy and change one:", f"  {PAPERS}"])


def paper(name: str, scale: str | None = None) -> Source:
    """Return the study of a paper.

    Args:
        name: Its name.
        scale: The name of a file in its folder `scales`, whose tables are laid over the study, key by key; a table with a kind is
            a whole one and replaces the study's.

    Raises:
        UserError: If there is no such paper, or no such scale of it.
    """
    if name not in papers():
        raise unknown("paper", name, papers())
    source = read_source(PAPERS / name)
    if scale is None:
        return source
    scales = {path.stem: path for path in (PAPERS / name / "scales").glob("*.toml")}
    if not scales:
        raise UserError(f"{name} has a single scale: leave --scale out")
    if scale not in scales:
        raise unknown("scale", scale, scales)
    return Source(laid_over(source.tables, read_toml(scales[scale])[1]), source.files, source.label)


def laid_over(old: Any, new: Any) -> Any:
    """Return `new` over `old`, key by key; a table with a kind is a whole one."""
    if not isinstance(old, dict) or not isinstance(new, dict) or "kind" in new:
        return new
    return {**old, **{key: laid_over(old.get(key), value) for key, value in new.items()}}
