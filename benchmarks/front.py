"""The picture at the front of the README and the site: `python -m benchmarks.front` draws it from the published results.

Nothing in it is written by hand: speeds are those of results/peers, exchanges those of results/sketched-newton, plans those of
results/leaderboard.
"""

import json
import math
from functools import cache
from html import escape
from pathlib import Path

import polars as pl

from turnout.report.theme import DARK, FONT, LIGHT

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md")
"""The pages whose table has a row for each panel, which ends with its command."""

FILES = {"light": LIGHT, "dark": DARK}
"""The palette of each picture docs/front-NAME.svg."""

WIDTH, HEIGHT = 960, 348
COLUMN, GAP = 290, 45
TOP, BOTTOM = 108, 318
"""The place of the charts below their headlines."""

NEAR = 1.1
"""The ratio to the cheapest cost up to which a plan counts as right."""


def main() -> None:
    """Write the pictures, and the facts into the README and the home page."""
    for name, palette in FILES.items():
        (ROOT / "docs" / f"front-{name}.svg").write_text(picture(palette), encoding="utf-8")
    for page in PAGES:
        lines = page.read_text(encoding="utf-8").splitlines()
        known = dict(zip(COMMANDS, rows(), strict=True))
        told = [next((row for command, row in known.items() if line.endswith(f"| `{command}` |")), line) for line in lines]
        page.write_text("\n".join(told) + "\n", encoding="utf-8")


def picture(palette: dict) -> str:
    """Return the picture in the colours of a palette."""
    panels = [speed, exchanges, plans]
    parts = [f'<g transform="translate({k * (COLUMN + GAP)} 0)">{"".join(panel(palette))}</g>' for k, panel in enumerate(panels)]
    words = " ".join(f"{headline}: {caption}." for headline, caption in facts())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="{escape(FONT)}">'
        f"<title>{escape(words)}</title>"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{palette["paper"]}"/>{"".join(parts)}</svg>\n'
    )


COMMANDS = (
    "python -m benchmarks peers",
    "turnout reproduce sketched-newton --out DIR",
    "python -m benchmarks.planner.leaderboard",
)
"""What repeats the numbers of each panel."""


def rows() -> list[str]:
    """Return the facts as rows of a table in Markdown."""
    pairs = zip(facts(), COMMANDS, strict=True)
    return [f"| **{headline}**, {caption} | `{command}` |" for (headline, caption), command in pairs]


@cache
def facts() -> list[tuple[str, str]]:
    """Return the headline and the caption of each panel."""
    ours, peers = speeds()
    ratios = [ours / rate for rate in peers.values()]
    tuned, strongest, single = costs()
    saved, less = (
        1 - 1 / _median([rival / one for one, rival in zip(single, rivals, strict=True)]) for rivals in (tuned, strongest)
    )
    cases = pl.read_parquet(RESULTS / "leaderboard" / "cases.parquet")
    right = (cases["ratio"] <= NEAR).mean()
    return [
        (
            f"{_round(min(ratios))} to {_round(max(ratios))} times faster",
            f"rounds a second of federated averaging, beside {len(peers)} frameworks",
        ),
        (
            f"{saved:.0%} fewer exchanges",
            f"one setting on {len(tuned)} problems, averaging tuned on each; {less:.0%} fewer than its strongest form",
        ),
        (
            f"{right:.0%} of plans are right",
            f"within {NEAR - 1:.0%} of the cheapest, for {cases['rounds'].median():.0%} of the rounds of a search",
        ),
    ]


def _median(values: list[float]) -> float:
    """Return the median as studies have it: of an even number of values the larger of the two in the middle."""
    return sorted(values)[len(values) // 2]


def _round(ratio: float) -> str:
    """Return a ratio with two digits."""
    size = 10 ** max(math.floor(math.log10(ratio)) - 1, 0)
    return f"{math.floor(ratio / size) * size:,}"


@cache
def speeds() -> tuple[float, dict[str, float]]:
    """Return the rounds a second of turnout and of the frameworks that could be run, the fastest first."""
    content = json.loads((RESULTS / "peers" / "peers.json").read_text(encoding="utf-8"))
    rates = {row["title"]: row["per_second"] for row in content["outcomes"] if row["workload"] == "W1" and row["per_second"]}
    peers = {name.partition(",")[0]: rates[name] for name in content["pins"] if name in rates}
    return rates["turnout"], dict(sorted(peers.items(), key=lambda pair: -pair[1]))


@cache
def costs() -> tuple[list[float], list[float], list[float]]:
    """Return the exchanges of averaging and of its strongest form, both tuned on each problem, and of the one setting."""
    frame = pl.read_csv(RESULTS / "sketched-newton" / "tables" / "to-0.005-exchanges.csv")
    plain, strongest, single = frame["method"].unique(maintain_order=True)
    wide = frame.pivot("method", index="problem", values="cost").sort(plain, strongest)
    return wide[plain].to_list(), wide[strongest].to_list(), wide[single].to_list()


def speed(palette: dict) -> list[str]:
    """Draw a bar for each framework."""
    ours, peers = speeds()
    rows = {"turnout": ours, **peers}
    step = min((BOTTOM - TOP) / len(rows), 30)
    parts = _head(palette, 0)
    for k, (name, rate) in enumerate(rows.items()):
        y, width = TOP + k * step, max(150 * rate / ours, 1)
        colour = palette["lines"][0] if name == "turnout" else palette["soft"]
        parts += [
            _text(palette, 88, y + step * 0.62, name, anchor="end"),
            f'<rect x="96" y="{y + 3:.1f}" width="{width:.1f}" height="{step - 7:.1f}" rx="2" fill="{colour}"/>',
            _text(palette, 102 + width, y + step * 0.62, f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}", soft=True),
        ]
    return parts


def exchanges(palette: dict) -> list[str]:
    """Draw three dots for each problem on a logarithmic axis."""
    series = costs()
    low, high = BOTTOM - 34, math.log(max(series[0]) * 1.1)
    marks = [
        (f'fill="{palette["paper"]}" stroke="{palette["lines"][1]}" stroke-width="1.8"', 3.4, "tuned", 8),
        (f'fill="{palette["soft"]}"', 2, "strongest form, tuned", 62),
        (f'fill="{palette["lines"][0]}"', 3.6, "one setting", 212),
    ]

    def height(cost: float) -> float:
        return low - (low - TOP) * math.log(cost) / high

    parts = _head(palette, 1)
    for tick in (1, 10, 100):
        y = height(tick)
        parts.append(f'<line x1="30" x2="{COLUMN}" y1="{y:.1f}" y2="{y:.1f}" stroke="{palette["faint"]}"/>')
        parts.append(_text(palette, 24, y + 4, str(tick), anchor="end", soft=True))
    for costs_, (look, radius, name, place) in zip(series, marks, strict=True):
        for k, cost in enumerate(costs_):
            x = 38 + k * (COLUMN - 46) / (len(costs_) - 1)
            parts.append(f'<circle cx="{x:.1f}" cy="{height(cost):.1f}" r="{radius}" {look}/>')
        parts.append(f'<circle cx="{place}" cy="{BOTTOM - 6}" r="{radius}" {look}/>')
        parts.append(_text(palette, place + 8, BOTTOM - 2, name, size=12))
    return parts


def plans(palette: dict) -> list[str]:
    """Draw a rectangle for each case, with its ratio to the cheapest where the plan is wrong."""
    cases = pl.read_parquet(RESULTS / "leaderboard" / "cases.parquet")
    problems, prices = (cases[name].unique(maintain_order=True).to_list() for name in ("problem", "price"))
    wide, tall = COLUMN / len(prices), (BOTTOM - 34 - TOP) / len(problems)
    right, wrong = palette["lines"][:2]
    parts = _head(palette, 2)
    for row in cases.iter_rows(named=True):
        x, y, ratio = prices.index(row["price"]) * wide, TOP + problems.index(row["problem"]) * tall, row["ratio"]
        size = f'width="{wide - 3:.1f}" height="{tall - 3:.1f}" rx="2"'
        parts.append(f'<rect x="{x + 1.5:.1f}" y="{y + 1.5:.1f}" {size} fill="{right if ratio <= NEAR else wrong}"/>')
        if ratio > NEAR:
            ground = {"ink": palette["paper"]}
            parts.append(_text(ground, x + wide / 2, y + tall - 4, f"{ratio:.2f} ×", anchor="middle", size=10))
    for k, name in enumerate(prices):
        parts.append(_text(palette, (k + 0.5) * wide, BOTTOM - 20, name, anchor="middle", size=12, soft=True))
    return [*parts, _text(palette, 0, BOTTOM - 2, f"{len(problems)} problems, each at {len(prices)} prices", size=12)]


def _head(palette: dict, k: int) -> list[str]:
    """Return the headline and the caption of a panel, the caption over two lines."""
    headline, caption = facts()[k]
    words, first = caption.split(), ""
    while words and len(first) + len(words[0]) < 42:
        first += f"{words.pop(0)} "
    return [
        _text(palette, 0, 36, headline, size=23, weight=650),
        _text(palette, 0, 62, first.strip(), soft=True),
        _text(palette, 0, 80, " ".join(words), soft=True),
    ]


def _text(palette: dict, x: float, y: float, words: str, anchor="start", size=13, weight=400, soft=False) -> str:
    """Return a line of text."""
    colour = palette["soft" if soft else "ink"]
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{colour}">'
        f"{escape(words)}</text>"
    )


if __name__ == "__main__":
    main()
