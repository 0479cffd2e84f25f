"""Checks of an algorithm: what every engine relies on."""

from collections.abc import Callable
from dataclasses import fields, replace

import jax
import numpy as np
from jax import monitoring
from jaxtyping import PyTree

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.core.local_methods import LOSS, NORM
from turnout.core.messages import payload, vectors
from turnout.core.seeds import Seeds
from turnout.engines.compiled_ask import CompiledAsk
from turnout.engines.exchange.strong_types import strongly_typed
from turnout.engines.faults import Faults
from turnout.engines.state import first_state
from turnout.io.serialization import decode
from turnout.problems.base import Precision, Problem
from turnout.runs.api import sweep
from turnout.runs.going_on import go_on
from turnout.runs.setup import bind, prepare, scope
from turnout.runs.trace import Trace
from turnout.samplers import Full, Independent, Sampler
from turnout.samplers.base import samplers_in
from turnout.testing.case import ROUNDS, SEED, Case, numbers, varied


def states_keep_their_types(case: Case) -> None:
    """A round keeps the shapes and types of all states, in double and in single precision; nothing is compiled."""
    for precision in ("double", "single"):
        before, after = states_around_a_round(case.algorithm, case.problem, precision)
        for what in ("server", "samplers", "clients"):
            change = first_change(before[what], after[what])
            if change is not None:
                case.fail(f"changes its {what} state in a round, {change}: return it in the shape and type that it came in")
        change = first_change(before["output"], jax.tree.map(jax.numpy.asarray, case.start), types=False)
        if change is not None:
            case.fail(f"hands out parameters of another shape than the problem's, {change}: return the problem's in output()")


def states_around_a_round(algorithm: Algorithm, problem: Problem, precision: Precision) -> tuple[dict, dict]:
    """Return the shapes and types of all states before a round and after it, and of what is handed out."""
    parts = ("samplers", "clients")
    with scope(precision):
        job = prepare(problem, Seeds.of(SEED), None, None)
        algorithm = bind(algorithm, problem, ROUNDS)

        def states():
            ask = CompiledAsk(job, algorithm, jax.numpy.zeros((), "int32"), first_state(job, algorithm, ()), None)
            server = ask.start(job.start)
            before = {"server": server, "output": algorithm.output(server)} | {name: getattr(ask.state, name) for name in parts}
            ask.refresh(algorithm.output(server))
            server = strongly_typed(algorithm.round(ask, server))
            return before, {"server": server} | {name: getattr(ask.state, name) for name in parts}

        return jax.eval_shape(states)


def first_change(old: PyTree, new: PyTree, types: bool = True) -> str | None:
    """Return in words the first leaf that differs in shape or type; None where none does."""
    if jax.tree.structure(old) != jax.tree.structure(new):
        return f"from {jax.tree.structure(old)} to {jax.tree.structure(new)}"
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(old), jax.tree.leaves(new), strict=True):
        if a.shape != b.shape or (types and a.dtype != b.dtype):
            return f"entry {jax.tree_util.keystr(path) or 'x'} from {a.dtype}{[*a.shape]} to {b.dtype}{[*b.shape]}"
    return None


def parameters_stay_finite(case: Case) -> None:
    """The parameters and all metrics are finite after each round."""
    if case.compiled.diverged is not None:
        case.fail(f"has parameters or a loss that are not finite after round {case.compiled.diverged}: lower its step sizes")


def engines_agree(case: Case) -> None:
    """The compiled engine and separate nodes, whose replies arrive in a shuffled order, give the same run."""
    if case.compiled.sites != case.nodes.sites:
        case.fail("asks at other places when it is compiled than on separate nodes: call ask in the same order in every round")
    sentence = "gives another run on separate nodes than compiled (draw and compute from keys, messages and states alone)"
    case.require_same(case.compiled, case.nodes, sentence, case.tolerance)


def ledger_counts_what_nodes_send(case: Case) -> None:
    """The ledger equals a count of the messages that the nodes receive and of their replies."""
    totals, counted = case.nodes.ledger.totals(), count_requests(case)
    for event, number in counted.items():
        if totals[event] != number:
            case.fail(
                f"is charged {totals[event]} {event} in {ROUNDS} rounds, but its nodes make {number}: "
                "let messages and replies have the same shapes for all clients"
            )


def count_requests(case: Case) -> dict[str, int]:
    """Count events by hand from the messages and replies of the nodes' run."""
    free = any(sampler.consults_before_draw and not sampler.is_charged for sampler in samplers_in(case.algorithm))
    counts = dict.fromkeys(("contacts", "bytes_down", "bytes_up", "vectors_down", "vectors_up", "missed", "queries_total"), 0)
    slowest: dict[tuple, int] = {}
    for request in case.requests:
        if free and request.method.split(".")[-1] in (NORM, LOSS):
            continue
        message, reply = decode(request.message, case.start)[0], decode(request.reply, case.start)
        exchange = (*request.made, request.method)
        slowest[exchange] = max(slowest.get(exchange, 0), reply[1]["queries"])
        counts["contacts"] += 1
        counts["missed"] += reply[1]["missed"]
        counts["queries_total"] += reply[1]["queries"]
        for way, part in (("down", message), ("up", reply[0])):
            counts[f"bytes_{way}"] += payload(part)
            counts[f"vectors_{way}"] += len(vectors(part, case.start))
    if case.algorithm.places:
        # What is still in flight at the end is counted as sent alone.
        return {name: counts[name] for name in ("contacts", "bytes_down", "vectors_down")}
    return counts | {"arrivals": counts["contacts"], "exchanges": len(slowest), "queries_slowest": sum(slowest.values())}


def compiles_once(case: Case) -> None:
    """Other seeds and hyper-parameters do not compile again."""
    case.run()
    other = varied(case.algorithm)
    programs = compilations(lambda: case.run(other, seed=SEED + 1))
    if programs:
        changed = ", ".join(numbers(case.algorithm)) or "no field"
        case.fail(
            f"compiles {len(programs)} programs again for another seed and other values of {changed}: keep numbers as fields of "
            "the record, and do not branch on them in Python"
        )


_programs: list[list[str]] = []


def _listen(event: str, _: float, **details) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        for programs in _programs:
            programs.append(str(details.get("fun_name")))


# There is no public way to stop listening, so one listener stays.
monitoring.register_event_duration_secs_listener(_listen)


def compilations(play: Callable) -> list[str]:
    """Return the names of the programs that `play` compiles."""
    programs: list[str] = []
    _programs.append(programs)
    try:
        play()
    finally:
        _programs.remove(programs)
    return programs


def sweeps_cell_is_the_single_run(case: Case) -> None:
    """Each cell of a sweep equals the run with its settings and seed."""
    other = varied(case.algorithm)
    name = next((name for name, value in numbers(other).items() if value != getattr(case.algorithm, name)), None)
    grid = {} if name is None else {name: [getattr(case.algorithm, name), getattr(other, name)]}
    swept = sweep(case.algorithm, case.problem, grid, seeds=[SEED, SEED + 1], rounds=ROUNDS)
    # The first and the last cell differ in the field and in the seed.
    for k in (0, -1):
        cell = swept.cells[k]
        single = case.run(replace(case.algorithm, **cell.settings), seed=cell.seed)
        settings = f"with {name or 'seed'} = {cell.settings.get(name or '', cell.seed)}"
        case.require_same(swept.traces[k], single, f"gives another run in a sweep than alone {settings}", case.tolerance)


def nobody(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm with samplers that draw nobody."""
    empty = Independent(probability=1e-12, capacity=2)
    held = {f.name: getattr(algorithm, f.name) for f in fields(algorithm) if f.init}
    # A field that is not shown and holds `Full` is for passes over all clients.
    shown = {f.name for f in fields(algorithm) if f.repr}
    names = [name for name, part in held.items() if isinstance(part, Sampler) and (name in shown or not isinstance(part, Full))]
    return replace(algorithm, **dict.fromkeys(names, empty))


def empty_cohort_changes_nothing(case: Case) -> None:
    """Rounds in which nobody is drawn cost nothing and leave the parameters as they are.

    Algorithms that refuse cohorts of random size, or ask clients whom their sampler does not draw, are not concerned.
    """
    try:
        sessions = [case.session(nobody(case.algorithm), rounds=rounds, engine="nodes") for rounds in (0, ROUNDS)]
    except UserError:
        return
    before, after = (session.run().trace for session in sessions)
    contacts = [trace.ledger.totals()["contacts"] for trace in (before, after)]
    if contacts[0] != contacts[1]:
        return
    if after.diverged is not None:
        case.fail("has parameters that are not finite after a round in which nobody was drawn: divide by no number that may be 0")
    if not unchanged(before, after):
        case.fail("changes its parameters in a round in which nobody was drawn: return the old state where nobody answered")


def unchanged(before: Trace, after: Trace) -> bool:
    """Whether two runs end with the same parameters, bit by bit."""
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(before.x), jax.tree.leaves(after.x), strict=True))


def lost_replies_are_mended(case: Case) -> None:
    """A reply that is lost and asked for again is used once; one that is skipped leaves finite parameters."""
    repeated = case.run(engine="nodes", faults=Faults(0.4, "repeat"))
    if not unchanged(repeated, case.nodes):
        case.fail(
            "gives another run where lost replies are asked for again: compute a reply from the key, message and state alone"
        )
    skipped = case.run(engine="nodes", faults=Faults(0.4, "skip"))
    if skipped.diverged is not None:
        case.fail("has parameters that are not finite where replies are lost: use the places of replies that answered alone")
    totals = skipped.ledger.totals()
    if not totals["aggregated"] <= totals["arrivals"] <= totals["contacts"]:
        case.fail("is charged more replies than messages where replies are lost")


def resumes_to_the_bit(case: Case) -> None:
    """A run that is stopped after a round and restored elsewhere ends as the whole run does."""
    session = case.session()
    chunks = session.play()
    while session.round < 1:
        next(chunks)
    snapshot = session.snapshot()
    resumed = case.session()
    resumed.restore(snapshot)
    case.require_same(resumed.run().trace, case.compiled, "gives another run when it is stopped and resumed")


def goes_on_to_the_bit(case: Case) -> None:
    """A finished run that gets more rounds ends as the longer run does, unless its algorithm depends on the number of rounds."""
    shorter = case.run(rounds=ROUNDS - 1)
    longer = case.session()
    try:
        go_on(longer, shorter.played)
    except UserError as error:
        if "where it depends on the number of rounds" in str(error):
            return
        raise
    case.require_same(longer.run().trace, case.compiled, "gives another run when it gets its last round later")


CHECKS: dict[str, Callable[[Case], None]] = {
    check.__name__: check
    for check in (
        states_keep_their_types,
        parameters_stay_finite,
        engines_agree,
        ledger_counts_what_nodes_send,
        compiles_once,
        sweeps_cell_is_the_single_run,
        empty_cohort_changes_nothing,
        lost_replies_are_mended,
        resumes_to_the_bit,
        goes_on_to_the_bit,
    )
}
"""The checks of an algorithm by name, those first whose failure explains that of others."""


def case(algorithm: Algorithm, problem: Problem) -> Case:
    """Return what the checks of an algorithm are given.

    Args:
        algorithm: The algorithm, with its hyper-parameters.
        problem: A problem with a few clients and unknowns.
    """
    return Case(algorithm, problem)
