"""Privacy accounting: the epsilon of a run, by the RDP accountant of dp-accounting."""

from typing import Any

import numpy as np

from turnout.accounting.counters import to_ledger
from turnout.engines.reply_usage import MEAN, WHO, Survey, survey
from turnout.privacy.accounting import import_dp_accounting
from turnout.privacy.mechanism import Privacy
from turnout.problems.base import Population
from turnout.runs.session import Session
from turnout.runs.setup import scope
from turnout.samplers import Independent, Nice
from turnout.samplers.base import Sampler, samplers_in

ZERO = "one client, whose replies are zero in one of the two runs"
REPLACED = "one client, whose data are others in one of the two runs"


def privacy_spent(privacy: Privacy, session: Session) -> dict:
    """Return the privacy that the rounds of `session` spent so far.

    The facts are epsilon for `privacy.delta`, epsilon for an observer who knows the cohorts, the relation between neighbouring
    runs, the number of releases, and the number of these with amplification by sampling.

    Args:
        privacy: Options of differential privacy.
        session: The session of the run.
    """
    dp = import_dp_accounting()
    engine: Any = session.engine
    with scope(session.precision):
        surveyed = survey(engine.job, engine.algorithm)
    population, ledger = engine.job.population, to_ledger(engine.sites, np.asarray(session.progress.counts))
    rows = {row["path"]: row for row in ledger.rows()}
    calls = [site.path for site in surveyed.sites if rows[site.path]["method"] != "draw"]
    samplers = samplers_in(engine.algorithm)
    sampled = {}
    if privacy.model == "central" and session.options.faults is None:
        sampled = {path: amplifying_design(surveyed, path, samplers, population) for path in calls}
    replaced = privacy.model == "local" or Nice in sampled.values()
    # Two clipped replies differ by at most twice the clipping norm.
    gaussian = dp.GaussianDpEvent(privacy.noise_multiplier / (2 if replaced else 1))
    relation = dp.NeighboringRelation.REPLACE_ONE if replaced else dp.NeighboringRelation.REPLACE_SPECIAL
    accountant, without_sampling = (dp.rdp.RdpAccountant(neighboring_relation=relation) for _ in range(2))
    releases = amplified = 0
    for path in calls:
        event, times = gaussian, int(rows[path]["exchanges"])
        if sampled.get(path) is (Nice if replaced else Independent):
            sampler, draw = surveyed.drawn_by(path)
            event, times = (
                sampled_event(dp, samplers[sampler], population, gaussian),
                int(rows[draw]["available"]) // population.count,
            )
            amplified += times
        if times:
            accountant.compose(event, times)
            without_sampling.compose(gaussian, times)
        releases += times
    evaluations = private_evaluations(privacy, session)
    for each in (accountant, without_sampling) if evaluations else ():
        each.compose(gaussian, evaluations)
    releases += evaluations
    return {
        **{name: getattr(privacy, name) for name in ("model", "clip", "noise_multiplier", "delta")},
        "epsilon": float(accountant.get_epsilon(privacy.delta)),
        "epsilon_with_known_cohorts": float(without_sampling.get_epsilon(privacy.delta)),
        "neighbours": REPLACED if replaced else ZERO,
        "releases": releases,
        "amplified": amplified,
    }


def private_evaluations(privacy: Privacy, session: Session) -> int:
    """Return how often the clients replied with metrics under local privacy: where their rows are not the server's.

    Args:
        privacy: Options of differential privacy.
        session: The session of the run.
    """
    engine: Any = session.engine
    asked = privacy.model == "local" and engine.job.storage.problem.remote and engine.asked
    return len(session.trace) if asked else 0


def amplifying_design(surveyed: Survey, path: str, samplers: list[Sampler], population: Population) -> type[Sampler] | None:
    """Return the class of the sampler that drew the cohort of a call, if its sampling amplifies privacy, and otherwise None.

    The cohort must be drawn for this call alone and from all clients, and only the sum may depend on its members. With
    independent draws the weights must not depend on the other clients; with a fixed size all weights must be equal.

    Args:
        surveyed: How the server uses the replies to each call.
        path: Path of the call site.
        samplers: Samplers of the algorithm.
        population: The clients.
    """
    (number, draw), uses = surveyed.drawn_by(path), surveyed.uses(path)
    if number is None or draw is None or WHO in uses or population.available is not None:
        return None
    sampler = samplers[number]
    if type(sampler) is Nice and population.weights is None and sampler.size < population.count:
        return Nice
    if (
        type(sampler) is Independent
        and not sampler.learns_from_feedback
        and not sampler.consults_before_draw
        and MEAN not in uses
    ):
        return Independent
    return None


def sampled_event(dp, sampler: Sampler, population: Population, event):
    """Return `event` on a cohort of `sampler`; for unequal probabilities the largest is used.

    Args:
        dp: The module dp_accounting.
        sampler: The sampler.
        population: The clients.
        event: Event of dp_accounting on one cohort.
    """
    if isinstance(sampler, Nice):
        return dp.SampledWithoutReplacementDpEvent(population.count, sampler.size, event)
    return dp.PoissonSampledDpEvent(float(np.max(sampler.expected_draws(sampler.start(population), population))), event)
