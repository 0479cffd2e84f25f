"""The site: it is built from a clean clone without a warning, has every public name, and takes nothing from elsewhere."""

import inspect
import os
import re
import subprocess
import sys
import threading
import tomllib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import turnout
from tests.helpers.browser import opened
from tests.helpers.commands import wait_for
from tests.helpers.site_hooks import hook

ROOT = Path(__file__).parents[2]
REFERENCE = hook("reference")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / VERSION
    build(folder, execute=False)
    return folder


def build(folder: Path, execute: bool) -> None:
    """Build the site in a folder; tutorials show what they print where they are executed."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PATH": path, "TURNOUT_EXECUTE_TUTORIALS": str(execute).lower()}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.everything
def test_tutorials_show_what_they_print(tmp_path):
    build(tmp_path / VERSION, execute=True)
    for name in ("adapters", "comparison", "federation", "hubs", "own_method", "pytorch"):
        assert "jp-OutputArea-output" in (tmp_path / VERSION / "tutorials" / f"{name}.html").read_text(), name


def test_every_public_name_has_a_heading(site):
    pages = "".join(path.read_text() for path in (site / "reference").rglob("*.html"))
    names = [name for name in turnout.__all__ if not inspect.ismodule(getattr(turnout, name))]
    missing = [name for name in names if f'id="turnout.{name}"' not in pages]
    for module, _ in REFERENCE.MODULES.values():
        listed = REFERENCE.public(module)
        assert listed
        missing += [name for name in listed if f'id="{module.__name__}.{name}"' not in pages]
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


NO_CURVE = ("apfl", "ditto", "fedbabu", "fedbn", "fedper", "fedrep", "flix", "inhubs", "l2gd", "pfedme", "scafflix")
"""Algorithms that find a model, or some of its leaves, for each client, and the one that hubs run side by side."""


def test_every_algorithm_has_a_measured_curve_with_a_text(site):
    pages = [path for path in (site / "reference" / "algorithms").glob("*.html")]
    assert pages
    for path in pages:
        text = path.read_text()
        drawn = len(re.findall(r'<svg role="img" aria-label="Measured run of \w+: [^"]+"', text))
        assert drawn == (path.stem not in NO_CURVE), path
        assert "<!-- curve" not in text and "<math" in text, path


def test_every_page_names_the_version(site):
    for path in site.rglob("*.html"):
        assert re.search(rf"turnout {re.escape(VERSION)}(?:, commit [0-9a-f]+)?\s", path.read_text()), path


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


MAIN = ("index", "studies", "plan", "compression", "deploy", "configuration", "commands", "benchmarks", "reference/samplers")
MAIN += ("reference/algorithms/scaffold",)
OTHERS = ("tutorials/comparison", "gallery/k-vib", "theory", "sampling", "notation", "message", "related", "exchanges", "weights")
OTHERS += ("engines", "theorems", "prices", "own-parts", "notebook", "choosing")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    yield from opened(tmp_path_factory.mktemp("profile"))


@pytest.mark.parametrize(
    ("scheme", "width", "names"),
    [
        pytest.param("light", 1300, MAIN + OTHERS, id="light-1300"),
        pytest.param("dark", 400, MAIN, id="dark-400-main"),
        pytest.param("dark", 400, OTHERS, id="dark-400-others", marks=pytest.mark.everything),
        pytest.param("light", 400, MAIN + OTHERS, id="light-400", marks=pytest.mark.everything),
        pytest.param("dark", 1300, MAIN + OTHERS, id="dark-1300", marks=pytest.mark.everything),
    ],
)
def test_no_page_is_hard_to_use_for_anybody(site, browser, scheme, width, names):
    """No serious violation of the rules of axe."""
    axe = pytest.importorskip("axe_core_python.selenium", reason="axe-core-python is not installed").Axe()
    preferred = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": preferred})
    browser.set_window_size(width, 900)
    # The theme keeps the scheme of the first page that it showed; this file has no script that could write it again.
    browser.get((site / "llms.txt").as_uri())
    browser.execute_script("localStorage.clear()")
    shown = {"light": "default", "dark": "slate"}[scheme]
    for page in names:
        browser.get((site / f"{page}.html").as_uri())
        assert browser.execute_script("return document.body.getAttribute('data-md-color-scheme')") == shown, page
        violations = axe.run(browser, options={"resultTypes": ["violations"]})["violations"]
        assert not [(one["id"], one["nodes"][0]["html"]) for one in violations if one["impact"] in ("serious", "critical")], page


class Quiet(SimpleHTTPRequestHandler):
    """A server that writes no log."""

    def log_message(self, *_):
        pass


@pytest.fixture
def served(site):
    """The address of a site of two versions, of which a link to the built one stands for an older one."""
    (site.parent / "0.0.9").symlink_to(site, target_is_directory=True)
    subprocess.run([sys.executable, ROOT / "mkdocs_hooks" / "versions.py", site.parent], check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site.parent)) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_versions_lead_to_each_other_and_each_is_searched(served, browser):
    browser.set_window_size(1300, 900)
    browser.get(f"{served}/index.html")
    wait_for(lambda: browser.current_url == f"{served}/{VERSION}/index.html")
    wait_for(lambda: browser.find_elements("css selector", ".md-version__link"))
    links = browser.find_elements("css selector", ".md-version__link")
    assert [link.get_attribute("textContent").strip() for link in links] == [VERSION, "0.0.9"]
    assert browser.find_element("css selector", ".md-version__current").text == VERSION
    browser.execute_script("arguments[0].click()", links[1])
    wait_for(lambda: browser.current_url.startswith(f"{served}/0.0.9/"))
    wait_for(lambda: [one.text for one in browser.find_elements("css selector", ".md-version__current")] == ["0.0.9"])
    browser.get(f"{served}/0.0.9/index.html?q=scaffold")
    wait_for(lambda: browser.find_elements("css selector", '.md-search-result__link[href*="algorithms/scaffold.html"]'))
