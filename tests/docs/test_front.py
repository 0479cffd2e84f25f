"""What README and home page begin with is drawn from the published results, and says what these say."""

import re

import pytest
from benchmarks import front


@pytest.mark.parametrize("name", front.FILES)
def test_pictures_are_those_of_the_results(name):
    assert (front.ROOT / "docs" / f"front-{name}.svg").read_text(encoding="utf-8") == front.picture(front.FILES[name])


@pytest.mark.parametrize("page", front.PAGES, ids=lambda page: page.name)
def test_pages_say_what_the_results_say(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert all(lines.count(row) == 1 for row in front.rows())


def test_headlines_are_bounds_that_hold():
    ours, peers = front.speeds()
    low, high = (float(number.replace(",", "")) for number in re.findall(r"[\d,]+", front.facts()[0][0]))
    ratios = [ours / rate for rate in peers.values()]
    assert low <= min(ratios) < 1.1 * low + 1 and high <= max(ratios) < 1.1 * high
    tuned, strongest, single = front.costs()
    saved = float(front.facts()[1][0].partition("%")[0]) / 100
    at_least = sum(one <= (1 - saved + 0.005) * other for one, other in zip(single, tuned, strict=True))
    assert at_least >= len(single) // 2 and len(single) == len(strongest)
