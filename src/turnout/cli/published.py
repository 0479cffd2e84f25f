"""Published results that are played again: the study that a command declares, and what is said of each table."""

import random
import shlex
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import typer

from turnout.core.errors import UserError

if TYPE_CHECKING:
    from turnout.studies.declaration import Declaration
    from turnout.studies.published import Published
    from turnout.studies.replay import Held
    from turnout.studies.replays import Replay

NO_TIME = "no time was left"
OWN = "the study makes this table itself, from all of its runs"
FOREIGN = "by now the study has no such goal and price"


def replayed(path: Path, minutes: float, seed: int, data: Path | None, wanted: tuple[str | None, str | None]) -> dict[str, Any]:
    """Play rows of the results in a folder again, and return what is found.

    Args:
        path: The folder of a study, or one that has several.
        minutes: The time that there is.
        seed: Seed of the choice.
        data: The folder with data files.
        wanted: The problems and the methods that are played, joined by commas; None for all.
    """
    from turnout.cli.progress import spinning
    from turnout.experiment.provenance import provenance, versions
    from turnout.studies.published import folders_of
    from turnout.studies.replay_process import ReplayProcess
    from turnout.studies.replays import Replay, replay
    from turnout.studies.verdicts import TOLERANCE

    end, rng = time.monotonic() + 60 * minutes, random.Random(seed)
    parts = [None if some is None else some.split(",") for some in wanted]
    found: dict[str, Replay | str] = {}
    for folder in folders_of(path):
        try:
            found[folder.resolve().name] = Replay(folder, *study_of(folder), rng, *parts)
        except UserError as error:
            found[folder.resolve().name] = str(error)
    replays = [one for one in found.values() if not isinstance(one, str)]
    with spinning("reading the results", "the rows that were played are not kept") as say, TemporaryDirectory() as temporary:
        other = ReplayProcess(data, study_of, Path(temporary))

        def hold(one, part, given: float):
            what = f"{one.published.name}: {part[1]} on {part[0]}"
            return other.hold(
                one.folder, part, given, lambda: say(f"{what}, {max(0, end - time.monotonic()) / 60:.1f} minutes left")
            )

        try:
            replay(replays, end - time.monotonic(), rng, hold)
        finally:
            other.close()
    return {
        "format": 1,
        "seed": seed,
        "minutes": minutes,
        "tolerance": TOLERANCE,
        "versions": {"turnout": version("turnout"), **versions()},
        **provenance(),
        "results": [{"name": name, **result_of(one)} for name, one in found.items()],
    }


def study_of(folder: Path) -> "tuple[Published, Declaration]":
    """Read the result in a folder, and the study that its command plays."""
    from turnout.studies.plan import seed_words
    from turnout.studies.published import read

    published = read(folder)
    declaration = declared(published.command, folder)
    if (now := seed_words(declaration.seeds)) != published.seeds:
        raise UserError(f"by now its study reports on {now}, in the place of {published.seeds}")
    return published, declaration


def declared(command: str, folder: Path) -> "Declaration":
    """Return the study that a command line plays; its files are looked up here, and in the folders above `folder`.

    Args:
        command: The command line.
        folder: The folder of its results.
    """
    from turnout.cli import command_line
    from turnout.cli.sweep import swept
    from turnout.studies.configurations import read_sources
    from turnout.studies.papers import paper
    from turnout.studies.reader import DeclarationReader

    words = shlex.split(command)
    if len(words) < 3 or words[0] != "turnout" or words[1] not in ("study", "compare", "sweep", "reproduce"):
        raise UserError(f"it was made by {command}, of which the files are not known")
    try:
        given = command_line().commands[words[1]].make_context(words[1], words[2:]).params
    except click.ClickException as error:
        raise UserError(f"its command is none of this version ({error.format_message()})") from None
    places = [Path(), *folder.resolve().parents]

    def here(file: str) -> Path:
        return next((place / file for place in places if (place / file).exists()), Path(file))

    if words[1] == "reproduce":
        source = paper(given["paper"], given["scale"])
    elif words[1] == "sweep":
        source = swept(here(given["file"]), given["grid"], given["seeds"])
    else:
        source = read_sources([here(file) for file in given["files"]])
    problems, methods = (given.get(part) and given[part].split(",") for part in ("problems", "methods"))
    return DeclarationReader(source).declaration().part(problems, methods, None if words[1] == "sweep" else given.get("seeds"))


def result_of(one: "Replay | str") -> dict[str, Any]:
    """Return what is found of a result, or why it was not played."""
    if isinstance(one, str):
        return {"not_played": one, "tables": []}
    published = one.published
    return {
        "date": published.date,
        "exact": published.exact,
        "tables": [{"table": table, **table_of(one, table)} for table in published.tables],
    }


def table_of(one: "Replay", table: str) -> dict[str, Any]:
    """Return what is found of a table: how many rows it has, those that were played, and why others were not."""
    rows = one.published.tables[table]
    if table not in one.asked:
        reason = FOREIGN if rows else OWN
        return {"rows": len(rows), "held": [], "not_played": {reason: max(1, len(rows))}}
    held = [each for each in one.held if each.table == table]
    played = {each.part for each in held}
    others = [part for part, where in one.tables.items() if table in where and part not in played]
    return {
        "rows": len(rows),
        "held": [row_of(each) for each in held],
        "not_played": dict(Counter(one.reasons.get(part) or too_long(one.late.get(part)) for part in others)),
    }


def row_of(each: "Held") -> dict[str, Any]:
    """Return a row that was played."""
    problem, method, setting = each.part
    names = {"problem": problem, "method": method, "setting": setting}
    return {
        **names,
        "verdict": each.verdict,
        "published": {name: value for name, value in each.published.items() if name not in names},
        "now": each.now,
        "played_seeds": each.seeds,
        **({"why": each.why} if each.why else {}),
    }


def too_long(seconds: float | None) -> str:
    """Say why there was no time for a row, one seed of which takes so many seconds, if that is known."""
    if seconds is None:
        return NO_TIME
    return f"one seed takes up to {seconds / 60:.1f} minutes" if seconds < 1e9 else "its time was over before its first rounds"


def show_replayed(found: dict[str, Any]) -> None:
    """Print what is found: a row for each table, both numbers where they differ, and why rows were not played."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from turnout.cli.tables import console
    from turnout.studies.verdicts import VERDICTS

    shown = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in ("result, table", "rows", *VERDICTS, "not played"):
        shown.add_column(heading, justify="left" if "," in heading else "right", overflow="fold")
    reasons: Counter[tuple[str, str]] = Counter()
    lines = differences(found)
    for result in found["results"]:
        if "not_played" in result:
            lines.append(f"not played, {result['name']}: {result['not_played']}")
        for table in result["tables"]:
            verdicts = Counter(row["verdict"] for row in table["held"])
            counts = [str(verdicts[name] or "") for name in VERDICTS]
            name = f"{result['name']}, {table['table']}"
            shown.add_row(name, str(table["rows"] or ""), *counts, str(sum(table["not_played"].values()) or ""))
            for reason, count in table["not_played"].items():
                reasons[result["name"], reason] += count
    console.print(shown)
    for line in [*lines, *(f"not played, {count} of {name}: {why}" for (name, why), count in reasons.items())]:
        console.print(escape(line), soft_wrap=True)
    typer.echo(f"{total(found)}; the choice is that of --seed {found['seed']}")


def differences(found: dict[str, Any]) -> list[str]:
    """Return a sentence with both numbers for each row that is neither equal nor within."""
    from turnout.studies.verdicts import DIFFERS, OPEN

    lines = []
    for result in found["results"]:
        for table in result["tables"]:
            for row in table["held"]:
                if row["verdict"] in (OPEN, DIFFERS):
                    setting = f" with {row['setting']}" if row["setting"] else ""
                    where = f"{result['name']}, {table['table']}: {row['method']} on {row['problem']}{setting}"
                    now = f"now it breaks: {row['why']}" if row["now"] is None else f"now {numbers(row['now'])}"
                    lines.append(f"{row['verdict']}: {where}: published {numbers(row['published'])}, {now}")
    return lines


def numbers(row: dict[str, float]) -> str:
    """Write the numbers of a row."""
    from turnout.report.format import number

    cost, low, high = (number(row[name]) for name in ("cost", "low", "high"))
    return f"{cost} (quartiles {low} – {high}, reached by {row['reached']:g} of {row['seeds']:g} seeds)"


def total(found: dict[str, Any]) -> str:
    """Say how many rows were played, and what came of them."""
    from turnout.studies.verdicts import VERDICTS

    tables = [table for result in found["results"] for table in result["tables"]]
    verdicts = Counter(row["verdict"] for table in tables for row in table["held"])
    told = ", ".join(f"{verdicts[name]} {name}" for name in VERDICTS)
    played = sum(bool(table["held"]) for table in tables)
    return (
        f"{sum(verdicts.values())} of {sum(table['rows'] for table in tables)} rows, in {played} of {len(tables)} tables: {told}"
    )


def failed(found: dict[str, Any]) -> bool:
    """Return whether a row differs, or none was played."""
    from turnout.studies.verdicts import DIFFERS

    verdicts = [row["verdict"] for result in found["results"] for table in result["tables"] for row in table["held"]]
    return not verdicts or DIFFERS in verdicts
