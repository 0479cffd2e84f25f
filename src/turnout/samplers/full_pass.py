"""A full pass: an exchange with all clients that is charged as many cohorts of a sampler's size."""

from turnout.core.errors import UserError
from turnout.problems.base import Population
from turnout.samplers.available import Available
from turnout.samplers.base import Sampler, places_of_cohorts
from turnout.samplers.full import Full


def full_pass(sampler: Sampler, population: Population) -> Full:
    """Return the sampler of all n clients that is charged as ceil(n / m) arbitrary selections, m being `cohort_size`.

    Args:
        sampler: Bound sampler whose cohorts a pass consists of.
        population: The clients.

    Raises:
        UserError: If clients are available by chance only.
    """
    return Full(cohort_size(sampler, population))


def cohort_size(sampler: Sampler, population: Population) -> int:
    """Return the cohort size m of `sampler`: its `size`, rounded, or the largest cohort of a sampler without one.

    Args:
        sampler: Bound sampler.
        population: The clients.

    Raises:
        UserError: If clients are available by chance only.
    """
    if isinstance(sampler, Available):
        raise UserError("a full pass asks all clients: take a sampler without availability")
    size = getattr(sampler, "size", None)
    if size is not None:
        return max(1, round(size))
    return places_of_cohorts(sampler, population)
