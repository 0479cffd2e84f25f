"""The drawing of the life of a message, from the table of steps in docs/message.md."""

import re
from html import escape
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[1] / "docs" / "message.md"

MARK = "<!-- life of a message -->"

LEFT, RIGHT, BOX, HIGH, GAP, TOP = 20, 460, 350, 44, 22, 46
"""Left edges of the lanes, width and height of a box, room between two, and height of the titles."""


class Step(NamedTuple):
    """A step.

    Args:
        name: What it is called.
        at: "server" or "client".
        files: The names of its files.
    """

    name: str
    at: str
    files: list[str]


def steps(page: str) -> list[Step]:
    """Return the steps in the table of a page."""
    rows = re.findall(r"^\| (\w+) \| (server|client) \| [^|]+ \| ([^|]+) \|$", page, flags=re.MULTILINE)
    return [Step(name, at, list(dict.fromkeys(re.findall(r"/(\w+\.py)\)", where)))) for name, at, where in rows]


def inserted(content: str) -> str:
    """Return a page with the drawing in the place of its mark."""
    return content.replace(MARK, figure(steps(PAGE.read_text(encoding="utf-8")))) if MARK in content else content


def figure(shown: list[Step]) -> str:
    """Return the drawing as HTML."""
    names = ", ".join(f"{step.name} at the {step.at}" for step in shown)
    text = f"The steps of one exchange, from top to bottom in two lanes, the server and a client: {names}."
    height = TOP + len(shown) * (HIGH + GAP)
    parts = [
        f'<svg role="img" aria-label="{escape(text)}" viewBox="0 0 {RIGHT + BOX + LEFT} {height}">',
        *(
            f'<text class="lane" x="{x + BOX / 2}" y="26">{title}</text>'
            for x, title in ((LEFT, "server"), (RIGHT, "each client of the cohort"))
        ),
        *(part for k, step in enumerate(shown) for part in box(k, step)),
        *(arrow(k, *pair) for k, pair in enumerate(zip(shown, shown[1:], strict=False))),
        "</svg>",
    ]
    return f'<figure class="message" tabindex="0">{"".join(parts)}</figure>'


def box(number: int, step: Step) -> list[str]:
    """Return the box of a step: its number and name, and its files below."""
    x, y = edge(step), TOP + number * (HIGH + GAP)
    below = ", ".join(step.files) or "by engine, see below"
    return [
        f'<rect class="{step.at}" x="{x}" y="{y}" width="{BOX}" height="{HIGH}" rx="6" />',
        f'<text class="name" x="{x + 12}" y="{y + 18}">{number + 1}. {step.name}</text>',
        f'<text class="files" x="{x + 12}" y="{y + 35}">{below}</text>',
    ]


def arrow(number: int, step: Step, following: Step) -> str:
    """Return the arrow from a step to the following one."""
    y = TOP + number * (HIGH + GAP) + HIGH
    x, end = edge(step) + BOX / 2, edge(following) + BOX / 2
    middle = y + GAP / 2
    return (
        f'<path class="arrow" d="M{x} {y} V{middle} H{end} V{y + GAP - 2}" />'
        f'<path class="head" d="M{end - 4} {y + GAP - 7} L{end} {y + GAP} L{end + 4} {y + GAP - 7} Z" />'
    )


def edge(step: Step) -> int:
    """Return the left edge of the lane of a step."""
    return LEFT if step.at == "server" else RIGHT
