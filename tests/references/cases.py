"""All test vectors, and the content of their files."""

import re

from tests.references.declared import (
    averaging,
    compressed,
    dual_and_buffered,
    estimated,
    fednova,
    further,
    local_steps,
    newton,
    proximal_and_personal,
    scaffold,
    servers,
)
from tests.references.declared.case import Case
from tests.references.tiny import Log, Tiny

PARTS = (
    averaging,
    scaffold,
    fednova,
    servers,
    dual_and_buffered,
    local_steps,
    proximal_and_personal,
    newton,
    further,
    compressed,
    estimated,
)

CASES = {case.name: case for part in PARTS for case in part.cases()}
"""All test vectors by name."""


def family(case: Case) -> str:
    """Algorithm and option: the vectors of a family differ in what papers leave open, or in what programs do otherwise."""
    if case.kind in ("fedopt", "scaffold", "fedac"):
        return re.match(r"fedavgm|[a-z]+(-[12])?", case.name).group()
    return case.kind


def played(case: Case) -> Log:
    """Run the program of a case."""
    log = Log()
    case.program(Tiny(case.loss, case.weights, case.constant), log, case.cohorts, **case.parameters, **case.given)
    return log


def document(case: Case) -> dict:
    """The content of the file."""
    log = played(case)
    return {
        "format": 1,
        "name": case.name,
        "family": family(case),
        "algorithm": case.kind,
        "variant": case.variant,
        "status": case.status,
        "source": case.source,
        "license": "CC0-1.0",
        "update": case.update,
        "problem": Tiny(case.loss, case.weights, case.constant).described(),
        "parameters": case.parameters,
        "tolerance": 1e-10,
        "start": log.first,
        "rounds": log.rounds,
    }
