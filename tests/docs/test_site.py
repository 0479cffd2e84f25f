"""The site: it is built from a clean clone without a warning, has every public name, and takes nothing from elsewhere."""

import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import turnout
from tests.helpers.browser import opened

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PATH": path}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_public_name_has_a_heading(site):
    pages = "".join(path.read_text() for path in (site / "reference").rglob("*.html"))
    names = [name for name in turnout.__all__ if not inspect.ismodule(getattr(turnout, name))]
    missing = [name for name in names if f'id="turnout.{name}"' not in pages]
    assert not missing


def test_pages_load_nothing_from_elsewhere_and_images_have_a_text(site):
    for path in site.rglob("*.html"):
        text = path.read_text()
        assert not re.findall(r'<(?:script|img|iframe)[^>]* src="https?:|<link[^>]* rel="stylesheet"[^>]* href="https?:', text), (
            path
        )
        # Scripts of charts are in the page, and write images into strings.
        shown = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
        assert all(re.search(r' alt="[^"]', image) for image in re.findall(r"<img[^>]*>", shown)), path


def test_every_algorithm_has_a_measured_curve_with_a_text(site):
    pages = [path for path in (site / "reference" / "algorithms").glob("*.html")]
    assert pages
    for path in pages:
        text = path.read_text()
        assert len(re.findall(r'<svg role="img" aria-label="Measured run of \w+: [^"]+"', text)) == 1, path
        assert "<!-- curve" not in text and "<math" in text, path


def test_every_page_names_the_version(site):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for path in site.rglob("*.html"):
        assert re.search(rf"turnout {re.escape(version)}(?:, commit [0-9a-f]+)?\s", path.read_text()), path


def test_a_star_opens_no_emphasis(site):
    """Of x*."""
    text = (site / "reference" / "algorithms" / "scaffold.html").read_text()
    assert "f_i(x*)" in text


def test_llms_txt_has_every_page(site):
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", (site / "llms.txt").read_text(), flags=re.MULTILINE)
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")} - {"404.html"}
    assert {*listed} == pages


def test_types_are_told_without_what_only_python_needs(site):
    text = (site / "reference" / "algorithms" / "fedavg.html").read_text()
    assert "Annotated" not in text.partition("Source code in")[0] and "Optional[" not in text


PAGES = ("index", "studies", "plan", "compression", "deploy", "configuration", "commands", "benchmarks", "reference/samplers")
PAGES += (
    "reference/algorithms/scaffold",
    "tutorials/comparison",
    "gallery/k-vib",
    "theory",
    "sampling",
    "notation",
    "message",
    "related",
)
PAGES += ("exchanges", "weights", "engines", "theorems", "prices", "own-parts", "notebook", "choosing")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    yield from opened(tmp_path_factory.mktemp("profile"))


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1300),
        ("dark", 400),
        pytest.param("light", 400, marks=pytest.mark.everything),
        pytest.param("dark", 1300, marks=pytest.mark.everything),
    ],
)
def test_no_main_page_is_hard_to_use_for_anybody(site, browser, scheme, width):
    """No serious violation of the rules of axe."""
    axe = pytest.importorskip("axe_core_python.selenium", reason="axe-core-python is not installed").Axe()
    preferred = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": preferred})
    browser.set_window_size(width, 900)
    for page in PAGES:
        browser.get((site / f"{page}.html").as_uri())
        violations = axe.run(browser)["violations"]
        assert not [(one["id"], one["nodes"][0]["html"]) for one in violations if one["impact"] in ("serious", "critical")], page
