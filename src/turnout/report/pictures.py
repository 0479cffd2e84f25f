"""Pictures of Vega-Lite specifications as files, drawn by several processes."""

import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from turnout.core.errors import UserError
from turnout.io.atomic import make_folder, write

SCALE = 2
"""Pixels of a PNG picture per point."""

SPECS = "figures.json"
"""The file in a folder of results with the specification of each picture by its name."""


def write_specs(folder: Path, specs: dict[str, Any]) -> None:
    """Write the specifications from which `draw` makes the pictures of the results in `folder`.

    Args:
        folder: Folder of the results.
        specs: Each specification by the name of its picture.
    """
    write(folder / SPECS, json.dumps(specs, separators=(",", ":"), ensure_ascii=False) + "\n")


def read_specs(folder: Path) -> dict[str, Any]:
    """Return the specifications in `folder`; `UserError` where there are none."""
    try:
        specs = json.loads((folder / SPECS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{folder} holds no figures: give the folder of a run, a study, a plan or of theory") from None
    except (OSError, ValueError):
        specs = None
    if not isinstance(specs, dict):
        raise UserError(f"{folder / SPECS}: cannot be read as figures: make the results again")
    return specs


def draw(folder: Path, specs: dict[str, Any]) -> list[Path]:
    """Write each picture to `folder`/figures as SVG, PNG and PDF, and return the paths.

    Args:
        folder: Folder of the results.
        specs: Each specification by the name of its picture.
    """
    figures, processes = make_folder(folder / "figures"), min(len(os.sched_getaffinity(0)), len(specs))
    if processes < 2:
        drawn = map(pictures, specs.values())
        return [path for name, each in zip(specs, drawn, strict=True) for path in _written(figures, name, each)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        drawn = pool.map(pictures, specs.values())
        return [path for name, each in zip(specs, drawn, strict=True) for path in _written(figures, name, each)]


def pictures(spec: dict) -> dict[str, bytes]:
    """Return a specification drawn as "svg", "png" and "pdf"."""
    # Slow to import.
    import vl_convert

    svg = vl_convert.vegalite_to_svg(spec)
    return {"svg": svg.encode(), "png": vl_convert.svg_to_png(svg, scale=SCALE), "pdf": vl_convert.svg_to_pdf(svg)}


def _written(figures: Path, name: str, drawn: dict[str, bytes]) -> list[Path]:
    for ending, content in drawn.items():
        write(figures / f"{name}.{ending}", content)
    return [figures / f"{name}.{ending}" for ending in drawn]
