"""The hubs of a run: which replies they sum, and whether one can do the server's work for a cohort of its own clients."""

from dataclasses import replace

import jax
import numpy as np

from turnout.accounting.ledger import OTHERS
from turnout.codecs.coded import Coded
from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.engines.groups.ranks import cut_sites
from turnout.engines.inputs import SUMS, Job
from turnout.engines.reply_usage import Survey, survey, why_not_one_sum
from turnout.hubs import Hubs, Layout
from turnout.problems.base import Problem
from turnout.runs.options import RunOptions
from turnout.samplers.available import Available
from turnout.samplers.base import samplers_in


def with_hubs(problem: Problem, hubs: Hubs | None) -> Problem:
    """Return a problem whose strata are the lowest hubs, where there are some: those of samplers that take the problem's.

    Args:
        problem: The problem.
        hubs: What the user says of the hubs; None for none.
    """
    if hubs is None:
        return problem
    population = replace(problem.population, strata=hubs.bind(problem.population).groups[0])
    return replace(problem, population=population)


def refuse_no_hubs(algorithm: Algorithm, hubs: Hubs | None) -> None:
    """Raise `UserError` where an algorithm is the work of hubs, and a run has none.

    Args:
        algorithm: The algorithm.
        hubs: What the user says of the hubs; None for none.
    """
    if hubs is None and algorithm.addressed.works_in_hubs:
        name = type(algorithm.addressed).__name__
        raise UserError(f"{name} works in hubs, and there are none: give hubs, such as t.Hubs(10), or the table [hubs]")


def layout_of(hubs: Hubs, job: Job, algorithm: Algorithm) -> Layout:
    """Return the hubs of a run.

    Args:
        hubs: What the user says of them.
        job: Inputs of the engine, without hubs.
        algorithm: The algorithm, bound to the problem.
    """
    if hubs.timed and job.fleet is None:
        raise UserError(
            "[hubs] latency and bandwidths need a clock, which [devices] gives: say how fast clients are, or leave them out"
        )
    if algorithm.places:
        name = type(algorithm.addressed).__name__
        raise UserError(f"[hubs] count exchanges, and {name} has requests in flight: take another algorithm, or no hubs")
    if cut_sites(algorithm, job.protection):
        raise UserError("[hubs] sum replies of one size, and adapters of clients have several ranks: leave ranks or hubs out")
    surveyed = survey(job, algorithm)
    # Payloads of a codec, bounds of replies and robust means are of each reply.
    each = isinstance(algorithm, Coded) or job.robust is not None or (job.faults is not None and job.faults.bounds)
    forwarded = tuple(path for path, uses in surveyed.used if each or why_not_one_sum(uses) is not None)
    plain = algorithm.addressed is algorithm and job.protection is None and not each and job.aggregation == "plain"
    works = plain and _one_cohort(surveyed, algorithm)
    return replace(hubs.bind(job.population), forwarded=forwarded, works=works, state_bytes=surveyed.state_bytes)


def layout_of_processes(hubs: Hubs, job: Job, algorithm: Algorithm, options: RunOptions) -> Layout:
    """Return the hubs of a run in which each is a process, so that the clock is the real one.

    Args:
        hubs: What the user says of them.
        job: Inputs of the engine, without hubs.
        algorithm: The algorithm, bound to the problem.
        options: Options of the run.
    """
    refuse_processes(hubs.bind(job.population), algorithm, options)
    if algorithm.addressed.works_in_hubs:
        _check_alone(job, algorithm)
    untimed = replace(hubs, latency=0.0, bandwidth_up=None, bandwidth_down=None)
    return layout_of(untimed, job, algorithm)


def refuse_processes(hubs: Layout, algorithm: Algorithm, options: RunOptions) -> None:
    """Raise `UserError` where hubs that are processes cannot do what a run needs.

    Args:
        hubs: The hubs.
        algorithm: The algorithm.
        options: Options of the run.
    """
    inside, privacy = algorithm.addressed.works_in_hubs, options.privacy
    if inside and options.aggregation in SUMS:
        raise UserError("a hub that plays rounds reads the replies of its clients: set [run] aggregation = 'plain'")
    if inside and privacy is not None:
        raise UserError("[privacy] accounts for cohorts that the server draws, and here hubs draw theirs: leave one of both out")
    if privacy is not None and privacy.model == "central":
        raise UserError("hubs add replies before the server adds noise, and read the sums: set [privacy] model = 'local'")
    if options.exchange is not None and not inside:
        raise UserError("hubs of a federation add replies as they are: leave [exchange] or [hubs] out")
    if options.aggregation == "encrypted" and options.faults is not None and np.any(np.asarray(options.faults.loss) > 0):
        raise UserError("hubs cannot leave out of an encrypted sum what [faults] loss takes for lost: leave loss out")
    if any(isinstance(sampler, Available) for sampler in samplers_in(algorithm)):
        raise UserError(
            "the server of a federation with hubs does not know who is connected to them: take another sampler than 'available', "
            "or leave [hubs] out"
        )


def _check_alone(job: Job, algorithm: Algorithm) -> None:
    """Raise `UserError` where hubs that are processes do not know what they need to run an algorithm by themselves.

    Args:
        job: Inputs of the engine, without hubs.
        algorithm: The algorithm, bound to the problem.
    """
    for sampler in samplers_in(algorithm):
        if jax.tree.leaves(sampler.start(job.population)):
            name = type(sampler).__name__
            raise UserError(f"sampler {name} keeps a state, which hubs of a federation do not share: take one such as 'nice'")
    surveyed = survey(job, algorithm)
    inside = tuple(f"{path}." for path in surveyed.hubs)
    outside = next((site for site in surveyed.sites if site.method not in OTHERS and not site.path.startswith(inside)), None)
    if isinstance(algorithm, Coded) and outside is not None:
        raise UserError(
            f"hubs of a federation add replies to {outside.method!r} as they are, which the server asks for: leave [exchange] out"
        )


def _one_cohort(surveyed: Survey, algorithm: Algorithm) -> bool:
    """Return whether a round draws one cohort, by a sampler that needs to know nothing of its replies."""
    draws = [site for site in surveyed.sites if site.method == "draw" and not site.path.startswith(("start.", "refresh."))]
    if len(draws) != 1 or "." in draws[0].path:
        return False
    return not any(sampler.learns_from_feedback or sampler.consults_before_draw for sampler in samplers_in(algorithm))
