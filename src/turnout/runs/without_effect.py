"""Settings of a run that change nothing, of which the user is told."""

from collections.abc import Iterator

from turnout.core.errors import caution
from turnout.engines.messaging import MessageEngine
from turnout.runs.clients_frame import tabulates
from turnout.runs.session import Session


def tell_without_effect(session: Session) -> None:
    """Give a `Caution` for each setting of a run that has no effect.

    Args:
        session: The session of the run.
    """
    for sentence in (*_unseen(session), *_unused(session)):
        caution(sentence)


def _unseen(session: Session) -> Iterator[str]:
    """Yield a sentence for each problem whose rows no metric sees."""
    options = session.options
    if options.callbacks:
        return
    seen = {what for what in session.further for name in session.metrics if name.startswith(f"{what}_")}
    seen |= {metric.of for metric in session.own}
    if options.held_out is not None and "held_out" not in seen:
        yield "held_out has no effect but that its clients are not drawn: add 'held_out_value' to the metrics, or leave it out"
    if options.test is not None and "test" not in seen and not tabulates(options.test):
        yield "test has no effect, since no metric is of its rows: add 'test_value' to the metrics, or leave it out"


def _unused(session: Session) -> Iterator[str]:
    """Yield a sentence for each option that another one, or the engine, leaves without an effect."""
    options = session.options
    if options.memory != "auto" and isinstance(session.engine, MessageEngine):
        yield "memory has no effect on clients that compute one by one: leave it out"
    if options.devices is not None and session.deployed:
        yield "[devices] has no effect in a federation, whose clock is the real one: leave it out"
    if options.seed and options.seeds is not None:
        yield f"seed = {options.seed} has no effect beside seeds, which has one for each purpose: leave one of them out"
