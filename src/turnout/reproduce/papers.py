"""The papers that can be reproduced: each has a folder of TOML files, and says of which kind it is."""

import re
import tomllib
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from turnout.core.errors import UserError, unknown
from turnout.data.catalogue import CATALOGUE, present, remedy
from turnout.experiment.config import Reader

PAPERS = Path(__file__).parent / "papers"


def papers() -> dict[str, str]:
    """Return the names and titles of the papers that can be reproduced."""
    return {path.parent.name: tables_of(path)[1]["title"] for path in sorted(PAPERS.glob("*/paper.toml"))}


def folder_of(name: str) -> Path:
    """Return the folder of the paper `name`."""
    if name not in papers():
        raise unknown("paper", name, papers())
    return PAPERS / name


def kind_of(name: str) -> ModuleType:
    """Return the module that reproduces the paper `name`: it has `read_paper`, `plan_of` and `reproduce`."""
    _, tables = tables_of(folder_of(name) / "paper.toml")
    return import_module(f"turnout.reproduce.{tables['kind']}.reproduction")


def chosen(paper, names: list[str]) -> list:
    """Return the figures of `paper` called `names`, or all of them where there are no names."""
    return [paper.figures[name] for name in among(paper.name, "figure", paper.figures, names)]


def among(paper: str, what: str, known: Iterable[str], names: list[str] | None) -> list[str]:
    """Return `names`, all of which have to be `known`, or those known where there are no names; `what` says of what they are."""
    for name in names or []:
        if name not in known:
            raise UserError(f"{paper} has no {what} {name!r}: it has {', '.join(known)}")
    return names or list(known)


def charted(paper, figures: list[str], names: list[str]) -> list:
    """Return those of `figures`, or of all where there are none, that have charts of `names`; some have to, where asked for."""
    found = [figure for figure in chosen(paper, figures) if figure.shown(names)]
    if figures and not found:
        raise UserError(f"no figure asked for shows {', '.join(names)}: leave --sets or --figure out")
    return found


def resolve(names: list[str], data: Path | None) -> list[str]:
    """Return the data sets `names`, known ones or files in `data`, as `load` finds them; those missing are named at once."""
    files = {name: str(data / name) for name in names if data is not None and name not in CATALOGUE and (data / name).is_file()}
    known = {name for name in names if name in CATALOGUE and (CATALOGUE[name].bundled or present(name, data))}
    missing = [name for name in names if name not in files and name not in known]
    if missing:
        hint = remedy(missing) if all(name in CATALOGUE for name in missing) else "check the names"
        raise UserError(f"data sets {', '.join(missing)} are not here: {hint}, or give their folder with --data DIR")
    return [files.get(name, name) for name in names]


def figure_files(name: str) -> list[Path]:
    """Return the files of the figures of the paper `name`: "2a" after "1" and before "10", and "E.1" after all numbers."""

    def order(path: Path) -> list[int | str]:
        return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.stem)]

    return sorted((PAPERS / name / "figures").glob("*.toml"), key=order)


def read_tables(path: Path) -> tuple[Reader, dict]:
    """Return a reader of the TOML file `path`, and its tables."""
    text, tables = tables_of(path)
    return Reader(str(path), text, tables), tables


def tables_of(path: Path) -> tuple[str, dict]:
    """Return the text of the TOML file `path`, and its tables."""
    text = path.read_text(encoding="utf-8")
    return text, tomllib.loads(text)
