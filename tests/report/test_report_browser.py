"""The report in a real browser: curves are drawn, the price switch works, and the console stays empty."""

import json

import numpy as np
import pytest

from tests.helpers.browser import opened
from tests.report.test_report import result
from turnout.report.page import write_report
from turnout.report.theme import LIGHT


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    yield from opened(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """The report of a run, opened from the disk and drawn."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    folder = tmp_path_factory.mktemp("report")
    browser.get_log("performance")
    browser.get(write_report(folder, result("quick", 0.3 ** np.arange(10), exchanges_per_round=4), "a run").as_uri())
    WebDriverWait(browser, 30).until(lambda b: b.find_elements(By.CSS_SELECTOR, "#chart svg g.mark-line path"))
    return browser


def paths(page) -> list[str]:
    from selenium.webdriver.common.by import By

    return [line.get_attribute("d") for line in page.find_elements(By.CSS_SELECTOR, "#chart svg g.mark-line path")]


@pytest.mark.slow
def test_the_run_is_a_curve(page):
    (drawn,) = paths(page)
    assert drawn.count("L") >= 8


@pytest.mark.slow
def test_the_price_switch_changes_the_curves_and_the_axis(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    before = paths(page)
    assert "cumulative cost: exchanges" in page.find_element(By.ID, "chart").text
    page.find_elements(By.CSS_SELECTOR, "#prices input[type=radio]")[1].click()
    WebDriverWait(page, 30).until(lambda b: "cumulative cost: hierarchical" in b.find_element(By.ID, "chart").text)
    assert paths(page) != before


@pytest.mark.slow
def test_the_table_has_the_costs(page):
    from selenium.webdriver.common.by import By

    cells = [cell.text for cell in page.find_elements(By.CSS_SELECTOR, "#costs td")]
    assert cells[:4] == ["quick", "round 2", "8", "2.8"]


@pytest.mark.slow
def test_the_pointer_shows_the_numbers_of_the_nearest_evaluation(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    chart = page.find_element(By.CSS_SELECTOR, "#chart svg g.mark-line path")
    ActionChains(page).move_to_element(chart).perform()
    told = WebDriverWait(page, 30).until(lambda b: b.find_element(By.ID, "vg-tooltip-element").text)
    assert told.split()[:3] == ["run", "quick", "round"]


@pytest.mark.slow
def test_a_change_of_theme_keeps_the_price(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    # Each look is one script, since a redrawing replaces the elements.
    def ink(browser):
        return browser.execute_script("return document.querySelector('#chart svg g.mark-line path')?.getAttribute('stroke')")

    def switched(browser):
        return browser.execute_script("return [...document.querySelectorAll('#prices input')].map(i => i.checked)")

    page.find_elements(By.CSS_SELECTOR, "#prices input[type=radio]")[1].click()
    before = ink(page)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark" if before == LIGHT["lines"][0] else "light"}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    WebDriverWait(page, 30).until(lambda b: ink(b) not in (None, before))
    WebDriverWait(page, 30).until(lambda b: switched(b) == [False, True])
    assert "cumulative cost: hierarchical" in page.find_element(By.ID, "chart").text


@pytest.mark.longer
def test_nothing_is_fetched_from_elsewhere(page):
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    # The browser's own pages (chrome:, chrome-untrusted:) may still be fetching when the report opens.
    urls = [request["request"]["url"] for request in asked if not request["documentURL"].startswith("chrome")]
    opened = [url for url in urls if url.endswith("report.html")]
    assert len(opened) == 1
    assert [url for url in urls[urls.index(opened[0]) :] if not url.startswith(("file:", "data:"))] == []


@pytest.mark.slow
@pytest.mark.parametrize("distances", [0.99 ** np.arange(5), [1.0, 0.0], [5.0], [1.0, 1e300]])
def test_the_console_stays_empty_whatever_is_drawn(page, tmp_path, distances):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    first = page.current_window_handle
    page.switch_to.new_window("tab")
    page.get(write_report(tmp_path, result("odd", distances), "odd").as_uri())
    WebDriverWait(page, 30).until(lambda b: b.find_elements(By.CSS_SELECTOR, "#chart svg g.mark-line path"))
    assert page.get_log("browser") == []
    page.close()
    page.switch_to.window(first)
