"""What an engine needs to play rounds."""

from jaxtyping import PyTree

from turnout.engines.storage import Blocks, Tiles
from turnout.faults import Faults
from turnout.optimum import Optimum
from turnout.records import record, static
from turnout.seeds import Seeds


@record
class Job:
    """One problem, its first parameters, seeds, faults and optimum; a cohort is computed `chunk` clients at a time."""

    storage: Blocks | Tiles
    start: PyTree
    seeds: Seeds
    faults: Faults | None
    optimum: Optimum | None
    chunk: int = static()

    @property
    def population(self):
        return self.storage.problem.population
