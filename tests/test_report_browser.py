"""The report in a real browser: curves are drawn, the price switch works, and the console stays empty."""

import shutil

import numpy as np
import pytest
from test_report import result

from turnout.report.page import write_report

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1100,1000",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (CHROMIUM and DRIVER):
        pytest.skip("chromium and chromedriver are not here: install the packages chromium and chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """A report of two runs, opened from the disk and drawn."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    folder = tmp_path_factory.mktemp("report")
    runs = [result("quick", 0.3 ** np.arange(10), exchanges_per_round=4), result("steady", 0.6 ** np.arange(10))]
    browser.get(write_report(folder, runs, "two runs").as_uri())
    WebDriverWait(browser, 30).until(lambda b: b.find_elements(By.CSS_SELECTOR, "#chart svg g.mark-line path"))
    return browser


def paths(page) -> list[str]:
    from selenium.webdriver.common.by import By

    return [line.get_attribute("d") for line in page.find_elements(By.CSS_SELECTOR, "#chart svg g.mark-line path")]


def test_each_run_is_a_curve(page):
    drawn = paths(page)
    assert len(drawn) == 2 and len(set(drawn)) == 2
    assert all(path.count("L") >= 8 for path in drawn)


def test_the_price_switch_changes_the_curves_and_the_axis(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    before = paths(page)
    assert "cumulative cost: rounds" in page.find_element(By.ID, "chart").text
    page.find_elements(By.CSS_SELECTOR, "#prices input[type=radio]")[1].click()
    WebDriverWait(page, 30).until(lambda b: "cumulative cost: hierarchical" in b.find_element(By.ID, "chart").text)
    assert paths(page) != before


def test_the_table_marks_the_cheapest(page):
    from selenium.webdriver.common.by import By

    best = [cell.text for cell in page.find_elements(By.CSS_SELECTOR, "#costs td.best")]
    assert best == ["2.8", "5"]


def test_the_console_is_empty(page):
    assert page.get_log("browser") == []
