"""What a private run spent: epsilon, by the accountant of dp-accounting."""

from typing import Any

import numpy as np

from turnout.accounting.counters import to_ledger
from turnout.core.errors import UserError
from turnout.engines.compiled import CompiledAsk, survey
from turnout.engines.reply_usage import MEAN, WHO
from turnout.privacy.mechanism import Privacy
from turnout.problems.base import Population
from turnout.runs.session import Session, scope
from turnout.samplers import Independent, Nice
from turnout.samplers.base import Sampler

ZERO = "one client, whose replies are zero in one of the two runs"
REPLACED = "one client, whose data are others in one of the two runs"


def accounting() -> Any:
    """Return dp-accounting; `UserError` where it is not installed."""
    try:
        import dp_accounting
        import dp_accounting.rdp
    except ModuleNotFoundError as error:
        raise UserError(f"[privacy] needs dp-accounting ({error}): pip install 'turnout[privacy]'") from None
    return dp_accounting


def spent(privacy: Privacy, session: Session) -> dict:
    """Return epsilon for `privacy.delta` after what `session` has played, and what it would be if the cohorts were known; between
    which neighbours, after how many releases, and for how many of these sampling counted.
    """
    dp = accounting()
    engine: Any = session.engine
    with scope(session.precision):
        traced = survey(engine.job, engine.algorithm)
    population, ledger = engine.job.population, to_ledger(engine.sites, np.asarray(session.progress.counts))
    rows = {row["path"]: row for row in ledger.rows()}
    calls = [path for path in traced.found if rows[path]["method"] != "draw"]
    sampled = {}
    if privacy.model == "central" and session.faults is None:
        sampled = {path: design(traced, path, population) for path in calls}
    replaced = privacy.model == "local" or Nice in sampled.values()
    # Two replies are at most twice as far apart as one is from zero.
    gaussian = dp.GaussianDpEvent(privacy.noise_multiplier / (2 if replaced else 1))
    relation = dp.NeighboringRelation.REPLACE_ONE if replaced else dp.NeighboringRelation.REPLACE_SPECIAL
    accountant, open_one = (dp.rdp.RdpAccountant(neighboring_relation=relation) for _ in range(2))
    releases = amplified = 0
    for path in calls:
        event, times = gaussian, int(rows[path]["exchanges"])
        if sampled.get(path) is (Nice if replaced else Independent):
            sampler, draw = traced.drawn_by[path]
            event, times = thinned(dp, sampler, population, gaussian), int(rows[draw]["available"]) // population.count
            amplified += times
        accountant.compose(event, times)
        open_one.compose(gaussian, times)
        releases += times
    return {
        **{name: getattr(privacy, name) for name in ("model", "clip", "noise_multiplier", "delta")},
        "epsilon": float(accountant.get_epsilon(privacy.delta)),
        "epsilon_with_known_cohorts": float(open_one.get_epsilon(privacy.delta)),
        "neighbours": REPLACED if replaced else ZERO,
        "releases": releases,
        "amplified": amplified,
    }


def design(traced: CompiledAsk, path: str, population: Population) -> type[Sampler] | None:
    """Return the kind of sampler that drew the cohort of a call, if its chances make the release smaller; None if they do not.

    The cohort has to be drawn for this call alone, from all clients, and nobody may learn who is in it but from the sum. For
    independent coins the weights may not depend on who else was drawn; for a fixed size all have to be the same.
    """
    (sampler, draw), uses = traced.drawn_by.get(path, (None, None)), traced.uses[path]
    if draw is None or WHO in uses or population.available is not None:
        return None
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


def thinned(dp, sampler: Sampler, population: Population, event):
    """Return `event` as it is on a cohort that `sampler` drew; unequal chances are all taken to be the largest."""
    if isinstance(sampler, Nice):
        return dp.SampledWithoutReplacementDpEvent(population.count, sampler.size, event)
    return dp.PoissonSampledDpEvent(float(np.max(sampler.expected_draws(sampler.start(population), population))), event)
