"""Privacy accounting: the epsilon of a run."""

from collections import Counter
from typing import Any

import numpy as np

from turnout.accounting.counters import to_ledger
from turnout.accounting.ledger import OTHERS
from turnout.engines.faults import Faults
from turnout.engines.reply_usage import MEAN, WHO, Survey, survey
from turnout.privacy.accounting import Release, epsilon_of
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

    The facts are epsilon for `privacy.delta`, epsilon for an observer who knows the cohorts, whether a secret draws them, the
    relation between neighbouring runs, the number of releases, and the number of these with amplification by sampling.

    Args:
        privacy: Options of differential privacy.
        session: The session of the run.
    """
    engine: Any = session.engine
    job, samplers = engine.job, samplers_in(engine.algorithm)
    with scope(session.precision):
        surveyed = survey(job, engine.algorithm)
    rows = {row["path"]: row for row in to_ledger(engine.sites, np.asarray(session.progress.counts)).rows()}
    calls = [site.path for site in surveyed.sites if rows[site.path]["method"] not in OTHERS]
    designs: dict[str, type[Sampler] | None] = {}
    if privacy.model == "central":
        designs = {path: amplifying_design(surveyed, path, samplers, job.population, job.faults) for path in calls}
    replaced = privacy.model == "local" or Nice in designs.values()
    # Two clipped replies differ by at most twice the clipping norm.
    multiplier = privacy.noise_multiplier / (2 if replaced else 1)
    releases: Counter[Release] = Counter()
    for path in calls:
        if designs.get(path) is (Nice if replaced else Independent):
            number, draw = surveyed.drawn_by(path)
            release = Release(multiplier, how_sampled(samplers[number], job.population))
            releases[release] += int(rows[draw]["available"]) // job.population.count
        else:
            releases[Release(multiplier)] += int(rows[path]["exchanges"])
    # A client may have answered a request whose reply is not taken yet.
    releases[Release(multiplier)] += private_evaluations(privacy, session) + (session.progress.flight is not None)
    releases = +releases
    return {
        **{name: getattr(privacy, name) for name in ("model", "clip", "noise_multiplier", "delta")},
        "epsilon": epsilon_of(releases, privacy.delta),
        "epsilon_with_known_cohorts": epsilon_of({Release(multiplier): releases.total()}, privacy.delta),
        "secret_cohorts": job.secret is not None,
        "neighbours": REPLACED if replaced else ZERO,
        "releases": releases.total(),
        "amplified": sum(count for release, count in releases.items() if release.sampled is not None),
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


def amplifying_design(
    surveyed: Survey, path: str, samplers: list[Sampler], population: Population, faults: Faults | None
) -> type[Sampler] | None:
    """Return the class of the sampler that drew the cohort of a call, if its sampling amplifies privacy, and otherwise None.

    The cohort must be drawn for this call alone and from all clients, and only the sum may depend on its members. With
    independent draws the weights must not depend on the other clients; with a fixed size all weights must be equal.

    Lost replies do not matter where losses do not depend on the data: given who would answer, a client that would not has a
    reply of zero. A sum that is divided by the weights of those who answered depends on who else was drawn.

    Args:
        surveyed: How the server uses the replies to each call.
        path: Path of the call site.
        samplers: Samplers of the algorithm.
        population: The clients.
        faults: Lost replies, and what follows.
    """
    (number, draw), uses = surveyed.drawn_by(path), surveyed.uses(path)
    if number is None or draw is None or WHO in uses or population.available is not None:
        return None
    sampler = samplers[number]
    skipped = MEAN in uses and faults is not None and faults.missing == "skip"
    if type(sampler) is Nice and population.weights is None and sampler.size < population.count and not skipped:
        return Nice
    if (
        type(sampler) is Independent
        and not sampler.learns_from_feedback
        and not sampler.consults_before_draw
        and MEAN not in uses
    ):
        return Independent
    return None


def how_sampled(sampler: Sampler, population: Population) -> float | tuple[int, int]:
    """Return (n, K) of a fixed size, and the largest of the probabilities of independent draws.

    Args:
        sampler: The sampler.
        population: The clients.
    """
    if isinstance(sampler, Nice):
        return population.count, sampler.size
    return float(np.max(sampler.expected_draws(sampler.start(population), population)))
