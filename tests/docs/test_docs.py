"""What the documentation shows runs as shown, and the project's own rules hold."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "turnout"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page):
    for block in blocks(page, "python"):
        done = subprocess.run(
            [sys.executable, "-c", block], capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "error"}
        )
        assert done.returncode == 0, done.stderr


def test_links_of_a_page_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_configured_name_and_key_is_documented():
    from dataclasses import fields

    from turnout.experiment.config import RunSpec
    from turnout.experiment.registry import TABLES
    from turnout.privacy.mechanism import Privacy

    page = (ROOT / "docs" / "configuration.md").read_text()
    for table, kinds in TABLES.items():
        for kind, cls in kinds.items():
            assert f"`{kind}`" in page, f"{table} {kind}"
            for field in fields(cls):
                if field.repr and field.name not in ("kind", "sampler"):
                    assert f"`{field.name}`" in page, f"{table} {kind}: {field.name}"
    for field in (*fields(RunSpec), *fields(Privacy)):
        assert f"`{field.name}`" in page


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.toml")), ids=lambda path: path.stem)
def test_every_example_is_a_configuration(path):
    from turnout.experiment.config import read

    assert read(path).target is not None


def test_only_the_command_line_prints():
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] != "cli":
            calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
            assert not any(getattr(call.func, "id", "") == "print" for call in calls), path
