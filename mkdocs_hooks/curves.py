"""The measured curve of each algorithm: a short run of its example, drawn in the colours of the page."""

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from functools import cache, partial
from html import escape
from pathlib import Path

import numpy as np
import vl_convert

from turnout.core.compiling import QUICK_TO_COMPILE

PROGRAM = """\
import turnout as t
from turnout.data import load
from turnout.data.splits import IidSplit

data = load("breast_cancer").normalized("columns")
problem = t.Logistic.of(data, IidSplit(8).split(data), mu=0.1)
{before}algorithm = {call}
sweep = t.sweep(algorithm, problem, {{}}, seeds=range(5), rounds=100, metrics=["gap"]{options})
print(sweep.frame.group_by("seed").last().select("seed", "exchanges", "gap"))
"""
"""What is run and shown."""

LEAST = 1e-14
"""Smaller gaps are rounding errors."""

QUICK = " ".join(f"--{option}={str(value).lower()}" for option, value in QUICK_TO_COMPILE.items())
"""The programs are short: they take longer to compile than to run."""

COLOURS = {
    "ink": "var(--md-typeset-color)",
    "soft": "var(--md-default-fg-color--light)",
    "faint": "var(--md-default-fg-color--lightest)",
    "paper": "transparent",
}
"""What stands for the colours of a figure on the page."""


def program(call: str, before: str, flies: bool) -> str:
    """Return the program that makes the curve of an algorithm.

    Args:
        call: The call that makes the algorithm.
        before: The lines that make what the call names.
        flies: Whether the algorithm has requests in flight, which needs devices with times.
    """
    options = ", devices=t.Devices(latency=0.1)" if flies else ""
    return PROGRAM.format(call=call, before=f"{before}\n" if before else "", options=options)


def drawn(algorithm) -> bool:
    """Return whether the gap of one model against exchanges says what an algorithm does.

    It does not where clients have models or leaves of their own, or hubs are at work at once.
    """
    return not (algorithm.personalises or algorithm.model_groups or algorithm.works_in_hubs)


def section(name: str, call: str, before: str, flies: bool) -> str:
    """Return the text about the curve of an algorithm, in Markdown, with a mark where the curve will be."""
    return f"""\
The gap $f(x) - f(x^\\star)$ against exchanges, of logistic regression on breast cancer data that eight clients share at random.
The line is the median over five seeds, and the band lies between the quartiles. The parameters are those of the example above,
not tuned for this problem.

<!-- curve {name} -->

This program makes the numbers. In a notebook, `sweep` shows its chart.

```python
{program(call, before, flies)}```
"""


def inserted(page: str) -> str:
    """Return a page with the curve in the place of its mark."""
    return re.sub(r"<!-- curve (\w+) -->", lambda match: figure(match[1], measured()[match[1]]), page)


def figure(name: str, line: dict[str, list[float]]) -> str:
    """Return the curve of an algorithm as HTML, with its text for those who do not see it."""
    from turnout.report.lines import Drawing, chart, styles, visible
    from turnout.report.theme import LIGHT, config

    drawing = Drawing(f"Measured run of {name}", "exchanges", "gap", visible([(name, line, False)], "log"), "log")
    spec = chart(drawing, styles([drawing]))
    values = [row for one in drawing.lines for row in one.rows()]
    title = {"text": "gap f(x) - f(x*)", "anchor": "start", "frame": "group"}
    svg = vl_convert.vegalite_to_svg({**spec, "data": {"values": values}, "title": title, "config": config(LIGHT)})
    for part, colour in {**{LIGHT[part]: colour for part, colour in COLOURS.items()}, LIGHT["lines"][0]: "var(--curve)"}.items():
        svg = svg.replace(part, colour)
    # The parts of a picture that has a text need none of their own.
    plain = re.sub(r' (?:aria-[a-z]+|role)="[^"]*"', "", svg[svg.index("<svg") :])
    text = f"{drawing.words} It starts at {line['median'][0]:.3g}, and takes {line['x'][-1]:g} exchanges."
    return f'<figure class="curve">{plain.replace("<svg", f"""<svg role="img" aria-label="{escape(text)}" """, 1)}</figure>'


@cache
def started() -> subprocess.Popen:
    """Start the runs beside the tutorials, which leave a core free; once, however often the site is built."""
    flags = {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {QUICK}"}
    return subprocess.Popen([sys.executable, __file__], env={**os.environ, **flags}, stdout=subprocess.PIPE, text=True)


@cache
def measured() -> dict[str, dict[str, list[float]]]:
    """Return the curves of all algorithms by name, once they are there."""
    out, _ = started().communicate()
    if started().returncode:
        raise RuntimeError("a measured run of an algorithm failed, see above")
    return json.loads(out)


def curve(text: str) -> dict[str, list[float]]:
    """Run a program and return the columns of its curve."""
    from turnout.report.lines import banded

    made: dict = {}
    with redirect_stdout(io.StringIO()):
        exec(compile(text, "curve", "exec"), made)
    frames = [trace.frame.select("exchanges", "gap").to_numpy().T for trace in made["sweep"].traces]
    return {key: column.tolist() for key, column in banded([(x, np.maximum(y, LEAST)) for x, y in frames]).items()}


def main() -> None:
    """Print the curves of all algorithms as JSON."""
    sys.path.insert(0, str(Path(__file__).parent))
    import algorithm_page
    import reference
    from facts import fact

    made = {}
    for name, cls in reference.algorithms().items():
        call, before, algorithm = algorithm_page.example(name, cls)
        if drawn(algorithm):
            text = program(call, before, hasattr(algorithm, "in_flight"))
            made[name] = fact("curve", name, cls, text, partial(curve, text))
    sys.stdout.write(json.dumps(made))


if __name__ == "__main__":
    main()
