"""`chart`: several runs in one picture."""

from collections.abc import Mapping
from itertools import chain

from turnout.accounting.prices import Price, price_of
from turnout.core.errors import UserError, unknown
from turnout.core.extras import extra
from turnout.core.field_checks import checked
from turnout.runs.trace import Trace


def chart(traces: Mapping[str, Trace], price: Price | None = None, metric: str | None = None):
    """Return an Altair chart of a metric of several runs against what each has cost so far.

    Args:
        traces: The runs by the names of their lines.
        price: Price of the events; default: one for each exchange.
        metric: Name of the metric; default: the first that all runs have.

    Raises:
        UserError: There is no run, a run has no such metric, or Altair is not installed.

    Examples:
        >>> import turnout as t
        >>> problem = t.Quadratic.random(12, 5)
        >>> runs = {f"{size} clients": t.run(t.MbGd(t.Nice(size), lr=0.1), problem, rounds=9) for size in (3, 6)}
        >>> drawn = t.chart(runs, t.LinearPrice(exchanges=1.0, contacts=0.1), metric="value")
        >>> len(drawn.to_dict()["concat"])
        1
    """
    altair = extra("altair", "a chart", "report")
    from turnout.report.compared import compared
    from turnout.report.format import METRICS
    from turnout.report.lines import picture

    checked("traces", traces, Mapping[str, Trace])
    price = price_of(price)
    frames = {name: [trace.frame] for name, trace in traces.items() if len(trace)}
    each = [list(trace.metrics) for trace in traces.values() if len(trace)]
    known = [name for name in dict.fromkeys((*METRICS, *chain(*each))) if each and all(name in names for names in each)]
    if not known:
        raise UserError("there is nothing to draw: give runs with rows, and with a metric that all of them have")
    if metric is not None and metric not in known:
        raise unknown("metric of all these runs", metric, known)
    spec = picture([compared(frames, metric or known[0], f"cumulative cost: {price.label}", price.cost)])
    return altair.Chart.from_dict(spec)
