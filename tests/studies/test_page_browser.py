"""The page of a study in a real browser: it fits a narrow screen, its switches work, and nothing is fetched from elsewhere."""

import json

import pytest

import turnout as t
from tests.helpers.browser import opened
from tests.helpers.studies import STUDY, tables

NAME = "A method with a name that is rather long for the legend of a chart on a narrow screen"
PICTURE = "[data-chart] svg path"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    yield from opened(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """The page of a small study on a screen of 400 pixels."""
    from selenium.webdriver.support.ui import WebDriverWait

    folder = tmp_path_factory.mktemp("study")
    study = tables(STUDY.replace("share = 0.5", 'share = 0.5\n\n[goals.far]\nmetric = "gradient"\nshare = 0.9'))
    study["methods"]["mbgd"]["title"] = NAME
    t.study(study, folder)
    browser.get_log("performance")
    screen = {"width": 400, "height": 6000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get((folder / "report.html").as_uri())
    WebDriverWait(browser, 30).until(lambda b: b.execute_script(f"return document.querySelectorAll('{PICTURE}').length") > 2)
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.slow
def test_a_narrow_screen_needs_no_scrolling_sideways(page):
    assert page.execute_script("return document.documentElement.scrollWidth") <= 400
    box = "document.querySelector('section:not([hidden]) .wide')"
    assert page.execute_script(f"return {box}.scrollWidth > {box}.clientWidth")
    widths = page.execute_script("return [...document.querySelectorAll('[data-chart] svg')].map(svg => svg.clientWidth)")
    assert widths and max(widths) <= 400


@pytest.mark.longer
def test_the_switches_choose_tables_and_default_figures(page):
    from selenium.webdriver.support.ui import Select, WebDriverWait

    def seen(what):
        script = (
            f"return [...document.querySelectorAll('{what}')].filter(e => !e.hidden).map(e => [e.dataset.goal, e.dataset.price])"
        )
        return page.execute_script(script)

    assert seen("section") == [["near", "exchanges"]]
    Select(page.find_element("id", "goal")).select_by_value("far")
    Select(page.find_element("id", "price")).select_by_value("dear")
    assert seen("section") == [["far", "dear"]] and seen("figure") == [[None, "dear"]]
    shown = "return document.querySelectorAll('figure:not([hidden]) [data-chart] svg path').length"
    WebDriverWait(page, 30).until(lambda b: b.execute_script(shown) > 2)


@pytest.mark.slow
def test_the_console_stays_empty_and_nothing_is_fetched_from_elsewhere(page):
    assert page.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    urls = [request["request"]["url"] for request in asked if request["documentURL"].startswith("file:")]
    assert urls and all(url.startswith(("file:", "data:")) for url in urls)
