"""What a run refuses in one sentence: options, engines, metrics and guarantees that do not go together."""

from turnout.core.algorithm import Algorithm
from turnout.core.errors import UserError
from turnout.core.robust_means import RobustMean
from turnout.engines.inputs import SUMS, Aggregation, Job
from turnout.engines.metrics import SAMPLING
from turnout.engines.reply_usage import refuse_single_replies, sums_needed, survey
from turnout.optimisers.auto_lr import is_auto
from turnout.privacy.mechanism import Privacy
from turnout.problems.base import Precision, Problem
from turnout.runs.options import RunOptions
from turnout.samplers.base import samplers_in


def refuse_coded(options: RunOptions) -> None:
    """Raise `UserError` where replies are compressed, but the run needs what only a linear codec leaves.

    Args:
        options: Options of the run.
    """
    if options.exchange is None or options.exchange.up is None:
        return
    if options.faults is not None and options.faults.bounds:
        raise UserError("[faults] norm and clip bound each reply, which its codec hides: leave them, or [exchange] up, out")
    up, linear = options.exchange.up, options.exchange.up.linear and options.exchange.feedback == "none"
    needs = "[privacy]" if options.privacy is not None else f"aggregation = {options.aggregation!r}"
    if not linear and (options.privacy is not None or options.aggregation in SUMS):
        raise UserError(
            f"{needs} needs replies whose payloads can be added up, and those of {type(up).__name__} with feedback = "
            f"{options.exchange.feedback!r} cannot: take up = {{kind = 'rand-k', common = true}} without feedback"
        )


def refuse_robust(job: Job, algorithm: Algorithm, privacy: Privacy | None) -> None:
    """Raise `UserError` where a robust mean cannot replace the sums of replies.

    Args:
        job: Inputs of the engine.
        algorithm: The algorithm, bound to the problem.
        privacy: Options of differential privacy.
    """
    if privacy is not None and privacy.model == "central":
        raise UserError("[privacy] model = 'central' adds noise to sums, but a robust mean is none: take model = 'local'")
    refuse_single_replies(survey(job, algorithm))


def refuse_engine(problem: Problem | None, aggregation: Aggregation | RobustMean, *, compiled: bool) -> None:
    """Raise `UserError` where the compiled engine cannot run the problem as asked.

    Args:
        problem: The problem.
        aggregation: "plain", "sum", "encrypted" or a robust mean.
        compiled: Whether the engine is the compiled one.
    """
    if compiled and problem is not None and problem.remote:
        raise UserError("losses that are not JAX functions cannot be compiled: use engine = 'nodes', or turnout deploy")
    if compiled and aggregation in SUMS:
        raise UserError(
            f"aggregation = {aggregation!r} changes what clients send, but the compiled engine sends nothing: set engine = "
            "'nodes', or use turnout deploy"
        )


def refuse_mesh(options: RunOptions, *, compiled: bool) -> None:
    """Raise `UserError` where clients cannot be spread over devices as asked.

    Args:
        options: Options of the run.
        compiled: Whether the engine is the compiled one.
    """
    if options.mesh > 1 and not compiled and options.engine == "nodes":
        raise UserError(f"mesh = {options.mesh} is for the compiled engine: leave it out, or engine = 'nodes'")


def refuse_mixed(problem: Problem, precision: Precision) -> None:
    """Raise `UserError` where clients choose their own types.

    Args:
        problem: The problem.
        precision: Precision of the run.
    """
    if precision == "mixed" and problem.remote:
        raise UserError("precision = 'mixed' needs losses written in JAX, but clients compute these: use precision = 'single'")


def refuse_metrics_of_replies(metrics: tuple[str, ...]) -> None:
    """Raise `UserError` where a metric needs each client's reply, which the server does not see."""
    judging = [name for name in metrics if name in SAMPLING]
    if judging:
        raise UserError(f"metric {judging[0]!r} needs each client's reply, which aggregation and [privacy] hide: leave it out")


def refuse_revealing(job: Job, algorithm: Algorithm, privacy: Privacy, metrics: tuple[str, ...], swept: bool) -> None:
    """Raise `UserError` where the guarantee of `privacy` would not hold: free previews, or replies used one by one.

    Args:
        job: Inputs of the engine.
        algorithm: The algorithm, bound to the problem.
        privacy: Options of differential privacy.
        metrics: Names of the metrics.
        swept: Whether it is a sweep.
    """
    if swept:
        raise UserError("[privacy] does not go with a sweep, because every cell uses the data: use a single run")
    refuse_metrics_of_replies(metrics)
    if any(sampler.consults_before_draw and not sampler.is_charged for sampler in samplers_in(algorithm)):
        raise UserError("[privacy] counts what clients are asked, but the sampler asks them for free: leave free out")
    if is_auto(algorithm):
        raise UserError(
            '[privacy] clips replies, with lr = "auto" also the curvature in them, which may be long: give lr a number'
        )
    if privacy.model == "central":
        sums_needed(survey(job, algorithm), "[privacy] model = 'local'")
        norm = None if job.faults is None else job.faults.norm
        if norm is not None and norm < privacy.clip:
            raise UserError(
                f"[faults] norm = {float(norm):g} is below [privacy] clip = {privacy.clip:g}, so that refusals would tell what "
                "clients reply: leave norm out, since clip bounds replies already"
            )
