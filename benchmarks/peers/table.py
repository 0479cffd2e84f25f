"""The table of what turnout and its peers did, in Markdown."""

from collections.abc import Sequence


def markdown(outcomes: Sequence[dict]) -> str:
    """Return a row for each peer, with three columns for each workload, and the sentences of those that failed below."""
    workloads = list(dict.fromkeys(outcome["workload"] for outcome in outcomes))
    cells: dict[str, dict[str, dict]] = {}
    for outcome in outcomes:
        cells.setdefault(outcome["title"], {})[outcome["workload"]] = outcome
    head = ["", "version", *(f"{name}: {what}" for name in workloads for what in ("rounds/s", "turnout is", "first round"))]
    rows = [[title, version_of(of), *(cell for name in workloads for cell in three(of.get(name)))] for title, of in cells.items()]
    table = [row_of(head), row_of(["---", "---"] + ["---:"] * (3 * len(workloads))), *map(row_of, rows)]
    sentences = [f"{outcome['workload']}: {outcome['problem']}." for outcome in outcomes if outcome["problem"]]
    return "\n".join(table) + "\n" + "".join(f"\n{sentence}\n" for sentence in sentences)


def row_of(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def version_of(of: dict[str, dict]) -> str:
    return next((outcome["version"] for outcome in of.values() if outcome["version"]), "")


def three(outcome: dict | None) -> list[str]:
    """Return rounds a second, how many times as fast turnout is, and seconds to the first round; dashes where there are none."""
    if outcome is None or outcome["problem"]:
        return ["—"] * 3
    return [short(outcome["per_second"]), f"{short(outcome['ratio'])} x", f"{outcome['first']:.1f} s"]


def short(number: float) -> str:
    """Return a number without decimals, or with two digits if it is less than 10."""
    return f"{number:,.0f}" if number >= 10 else f"{number:#.2g}"
