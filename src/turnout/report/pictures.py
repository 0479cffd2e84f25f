"""Pictures of the charts that a folder of results holds, as files."""

import json
import os
import subprocess
import sys
from pathlib import Path

from turnout.core.errors import UserError
from turnout.core.interrupts import uninterrupted_children
from turnout.io.atomic import make_folder, write
from turnout.report.vega import converter

CHARTS = "figures.json"
"""The file of the charts: Vega-Lite specifications by the names of their pictures."""

SCALE = 2
"""Pixels of a PNG picture per point."""


def write_charts(folder: Path, charts: dict[str, dict]) -> None:
    """Write the Vega-Lite specifications of pictures, by name, which `draw` reads."""
    write(folder / CHARTS, json.dumps(charts, ensure_ascii=False))


def read_charts(folder: Path) -> dict[str, dict]:
    """Return the Vega-Lite specifications in `folder`; `UserError` where it holds none."""
    path = folder / CHARTS
    try:
        charts = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{folder} holds no {CHARTS}: give the folder of a finished run, study, plan or theory") from None
    except (OSError, ValueError, RecursionError):
        raise UserError(f"{path}: cannot be read: play or write the results again") from None
    if not isinstance(charts, dict) or not all(isinstance(one, dict) and Path(name).name == name for name, one in charts.items()):
        raise UserError(f"{path}: must hold a JSON object of charts by the names of files: play or write the results again")
    return charts


def draw(folder: Path) -> list[Path]:
    """Draw the charts in `folder` as SVG, PNG and PDF in its subfolder `figures`, and return the paths.

    There is a process for each core, at most one for each chart. `UserError` where there is no chart, or the extra "report" is
    not installed.
    """
    charts = read_charts(folder)
    if not charts:
        raise UserError(f"{folder / CHARTS}: holds no chart: there is nothing to draw")
    converter()
    make_folder(folder / "figures")
    count = min(len(charts), len(os.sched_getaffinity(0)))
    command = [sys.executable, "-m", "turnout.report.pictures", str(folder), str(count)]
    # A process of multiprocessing would play the script of a user who started this again.
    with uninterrupted_children():
        team = [subprocess.Popen([*command, str(k)], stderr=subprocess.PIPE, text=True) for k in range(count)]
    try:
        errors = [process.communicate()[1] for process in team]
    finally:
        for process in team:
            process.kill()
    for process, said in zip(team, errors, strict=True):
        if process.returncode:
            reason = (said.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
            raise UserError(f"{folder / 'figures'}: the pictures cannot be drawn ({reason}): see {CHARTS}")
    return [folder / "figures" / f"{name}.{ending}" for name in charts for ending in ("svg", "png", "pdf")]


def draw_share(folder: Path, processes: int, number: int) -> None:
    """Draw every chart of which the place is `number` modulo `processes`."""
    for name, chart in list(read_charts(folder).items())[number::processes]:
        svg = converter().vegalite_to_svg(chart)
        pictures = {"svg": svg, "png": converter().svg_to_png(svg, scale=SCALE), "pdf": converter().svg_to_pdf(svg)}
        for ending, content in pictures.items():
            write(folder / "figures" / f"{name}.{ending}", content)


if __name__ == "__main__":
    draw_share(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
