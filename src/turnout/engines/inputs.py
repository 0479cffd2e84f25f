"""What an engine needs to play rounds."""

from typing import Literal

from jaxtyping import PyTree

from turnout.accounting.target import Target
from turnout.core.records import record, static
from turnout.core.seeds import Seeds
from turnout.engines.faults import Faults
from turnout.privacy.mechanism import Protection
from turnout.problems.optimum import Optimum
from turnout.problems.storage.layout import Padded, Ragged

Aggregation = Literal["plain", "sum"]
"""What the server gets of the replies to an exchange: each of them, or only their weighted sum."""


@record
class Job:
    """One problem, its first parameters, seeds, faults, optimum, the rows to test with and clients that are held out.

    A cohort is computed `chunk` clients at a time.

    `judged` tells whether all clients' replies are computed too, to judge the draws by; at the target `stop` the run ends.
    """

    storage: Padded | Ragged
    start: PyTree
    seeds: Seeds
    faults: Faults | None
    optimum: Optimum | None
    test: Padded | Ragged | None
    held_out: Padded | Ragged | None
    chunk: int = static()
    judged: bool = static(default=False)
    stop: Target | None = None
    aggregation: Aggregation = static(default="plain")
    protection: Protection | None = None

    @property
    def population(self):
        return self.storage.problem.population
