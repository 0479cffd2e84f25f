"""The results of a study: its runs, and the goals, prices, tables and claims that are applied to them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from turnout.accounting.prices import Price
from turnout.accounting.target import is_accuracy
from turnout.core.errors import UserError, unknown
from turnout.report.format import short
from turnout.studies.budget import Budget
from turnout.studies.cases import Case, Cases
from turnout.studies.claims import Verdict, judged, ratio_words, too_few
from turnout.studies.costs import best_settings, costs, run_costs
from turnout.studies.declaration import Claim, Declaration
from turnout.studies.exhibits import Exhibit
from turnout.studies.goals import Goal
from turnout.studies.grid import settings_of
from turnout.studies.plan import Run, name_of, seed_words
from turnout.studies.statistics import Ratio, ratio
from turnout.studies.tables import Table, row_of


@dataclass(frozen=True)
class Results:
    """What the runs of a study come to at its goals and prices.

    Args:
        declaration: What was declared.
        runs: One row for each evaluated round of each run: problem, method, setting, a column for each swept key, seed, purpose,
            round, metrics and the cumulative events of the ledger.
        broken: Each run that could not be played, and why.
        cases: Its problems.
        budget: What the runs could spend, and what that left out; None without a limit.
    """

    declaration: Declaration = field(repr=False)
    runs: pl.DataFrame = field(repr=False)
    broken: tuple[tuple[Run, str], ...] = ()
    cases: Cases = field(default_factory=Cases, repr=False, compare=False)
    budget: Budget | None = None
    computed: dict = field(default_factory=dict, repr=False, compare=False)

    def costs(self, goal: str | Goal | None = None, price: str | Price | None = None) -> pl.DataFrame:
        """Return the median cost of every setting over its seeds, with quartiles, an interval and the seeds that reached it.

        Args:
            goal: A goal, or the name of one; default: the first one.
            price: A price, or the name of one; default: the first one.
        """
        return self._once("costs", goal, price, lambda: costs(self._run_costs(goal, price)))

    def best(self, goal: str | Goal | None = None, price: str | Price | None = None) -> pl.DataFrame:
        """Return the cost of each method on each problem: at the tuned setting on fresh seeds, or without tuning at its cheapest.

        Args:
            goal: A goal, or the name of one; default: the first one.
            price: A price, or the name of one; default: the first one.
        """
        return self._once("best", goal, price, lambda: self._best(goal, price))

    def _best(self, goal: str | Goal | None, price: str | Price | None) -> pl.DataFrame:
        """Return what `best` does."""
        return best_settings(self._reported(goal, price))

    def _reported(self, goal: str | Goal | None, price: str | Price | None) -> pl.DataFrame:
        """Return the costs of the settings that are reported: with tuning the chosen ones."""
        summary = self.costs(goal, price)
        if summary.is_empty():
            return summary
        chosen, reported = self._chosen(self.goal(goal), self.price(price)), summary.filter(pl.col("purpose") == "report")
        if not chosen.is_empty():
            joined = reported.join(chosen, on=["problem", "method"], how="left", maintain_order="left")
            free = pl.col("chosen").is_null() | (pl.col("chosen") == pl.col("setting"))
            reported = joined.filter(free).drop("chosen")
        return reported

    def ratio(
        self, problem: str, method: str, rival: str, goal: str | Goal | None = None, price: str | Price | None = None
    ) -> Ratio:
        """Return the ratio of the median costs of two methods at their best, over the seeds that both have.

        Args:
            problem: The problem.
            method: The method above the line.
            rival: The method below it.
            goal: A goal, or the name of one; default: the first one.
            price: A price, or the name of one; default: the first one.
        """
        runs, best = self._run_costs(goal, price), self.best(goal, price)
        if best.is_empty():
            return ratio(np.zeros(0), np.zeros(0))
        mine = runs.join(best.select("problem", "method", "setting", "purpose"), on=["problem", "method", "setting", "purpose"])
        mine = mine.filter(pl.col("problem") == problem)
        one, other = (mine.filter(pl.col("method") == name).select("seed", "cost") for name in (method, rival))
        both = one.join(other, on="seed", suffix="_rival", maintain_order="left")
        return ratio(both["cost"].to_numpy(), both["cost_rival"].to_numpy())

    def winner(self, problem: str, goal: str | Goal | None = None, price: str | Price | None = None) -> str | None:
        """Return the method whose cost is below that of every other one with the whole interval of the ratio; None without one.

        Args:
            problem: The problem.
            goal: A goal, or the name of one; default: the first one.
            price: A price, or the name of one; default: the first one.
        """
        nearest = self._nearest(problem, goal, price)
        return nearest[0] if nearest is not None and nearest[2].decided and nearest[2].interval.high < 1 else None

    def _nearest(self, problem: str, goal: str | Goal | None, price: str | Price | None) -> tuple[str, str, Ratio] | None:
        """Return the cheapest method, the rival that is the least certain to cost more, and the ratio of their costs."""
        best = self.best(goal, price)
        if best.is_empty():
            return None
        first, *rivals = best.filter(pl.col("problem") == problem).sort("cost", maintain_order=True)["method"].to_list() or [None]
        ratios = [(first, rival, self.ratio(problem, first, rival, goal, price)) for rival in rivals]
        return max(ratios, key=lambda each: (not each[2].decided, each[2].interval.high), default=None)

    def claims(self) -> list[Verdict]:
        """Return the verdict on each claim and problem."""
        return [self.judge(claim, problem) for claim in self.declaration.claims for problem in self._claimed(claim)]

    def findings(self) -> list[str]:
        """Return the sentences of the study's own function `findings`, if it has one."""
        return [] if self.declaration.findings is None or self.runs.is_empty() else self.declaration.findings(self)

    def exhibits(self) -> list[Exhibit]:
        """Return the tables and charts of the study's own function `exhibits`, if it has one."""
        return [] if self.declaration.exhibits is None or self.runs.is_empty() else self.declaration.exhibits(self)

    def case(self, problem: str) -> Case:
        """Return a problem as it is built, with its data and its optimum.

        Args:
            problem: Its name.
        """
        method = next(method for name, method in self.declaration.pairs if name == problem)
        return self.cases.of(settings_of(self.declaration, problem, method)[0].experiment())

    def judge(self, claim: Claim, problem: str) -> Verdict:
        """Return the verdict on a claim on one problem."""
        goal, price = self._asked(claim)
        wanted = self.goal(goal)
        names = [self.declaration.methods[name].title for name in (claim.method, claim.rival)]
        limit = "no more than" if claim.at_most == 1 else f"at most {claim.at_most:g} times as much as"
        words = f"{names[0]} costs {limit} {names[1]} to {wanted.words} in {self.price(price).label}"
        if not wanted.levelled:
            # Ratios of accuracies are those of error rates.
            best, limit = wanted.words.replace(wanted.metric, short(wanted.metric)), limit.removesuffix(" as much as")
            words = f"{best}: {names[0]} comes to {limit} what {names[1]} comes to"
        return judged(
            words,
            self.declaration.problems[problem],
            self.ratio(problem, claim.method, claim.rival, goal, price),
            claim.at_most,
        )

    def table(self, goal: str | Goal | None = None, price: str | Price | None = None) -> Table:
        """Return the cost of each method on each problem as a table for Markdown, CSV and LaTeX.

        Of a study with one method it has all settings that are reported, cheapest first.

        Args:
            goal: A goal, or the name of one; default: the first one.
            price: A price, or the name of one; default: the first one.
        """
        aim, paid, best = self.goal(goal), self.price(price), self.best(goal, price)
        winners = {problem: self.winner(problem, goal, price) for problem in self.declaration.problems}
        shown, rows = best, []
        if len(self.declaration.methods) == 1 and not best.is_empty():
            shown = self._reported(goal, price).sort("problem", "cost", "mean", "queries", "best", maintain_order=True)
        for facts in shown.iter_rows(named=True):
            titles = self.declaration.problems[facts["problem"]], self.declaration.methods[facts["method"]].title
            rows.append(row_of(facts, aim, paid, titles, winners[facts["problem"]] == facts["method"]))
        sentences = {
            self.declaration.problems[problem]: self._outcome(problem, best, winners[problem], goal, price)
            for problem in self._met(best)
        }
        what = f"Cost to {aim.words}, {paid.label}" if aim.levelled else f"{aim.words.capitalize()} of each run"
        measured = "cost" if aim.levelled else aim.metric
        how = self._choice() + self._not_played()
        return Table(f"{what}: median over the seeds", measured, tuple(rows), sentences, how, shown)

    def tables(self) -> dict[tuple[str, str], Table]:
        """Return the tables of all goals that runs are about and all prices, by their names.

        A goal without a level has one, at the first price.
        """
        goals, prices = self.declaration.goals, list(self.declaration.prices)
        pairs = [(name, price) for name, goal in goals.items() for price in (prices if goal.levelled else prices[:1])]
        return {pair: self.table(*pair) for pair in pairs if not self.best(*pair).is_empty()}

    def goal(self, goal: str | Goal | None = None) -> Goal:
        """Return a goal by its name, the first one without a name, or the given one."""
        if isinstance(goal, Goal):
            return goal
        return _named("goal", goal, self.declaration.goals, "a study without goals has no costs: add [goals.NAME]")

    def price(self, price: str | Price | None = None) -> Price:
        """Return a price by its name, the first one without a name, or the given one."""
        if price is not None and not isinstance(price, str):
            return price
        return _named("price", price, self.declaration.prices, "there is no price: add [prices.NAME]")

    def _run_costs(self, goal: str | Goal | None, price: str | Price | None) -> pl.DataFrame:
        """Return the cost of each run."""
        return self._once("runs", goal, price, lambda: run_costs(self.runs, self.goal(goal), self.price(price)))

    def _once(self, what: str, goal: str | Goal | None, price: str | Price | None, compute: Callable) -> pl.DataFrame:
        """Return compute(), which is called once for each goal and price of the study, since each is asked for many times."""
        if isinstance(goal, Goal) or not isinstance(price, str | None):
            return compute()
        key = (what, goal, price)
        if key not in self.computed:
            self.computed[key] = compute()
        return self.computed[key]

    def _chosen(self, goal: Goal, price: Price) -> pl.DataFrame:
        """Return the tuned setting of each problem and method: for this goal and price, or for those that come first."""
        declared = self.declaration
        pairs = sorted(declared.tuning, key=lambda pair: (declared.goals[pair[0]], declared.prices[pair[1]]) != (goal, price))
        costs = [frame for pair in pairs if not (frame := self.costs(*pair)).is_empty()]
        tuned = [best_settings(frame.filter(pl.col("purpose") == "tune")) for frame in costs]
        names = [frame.select("problem", "method", chosen="setting") for frame in tuned if not frame.is_empty()]
        return pl.concat(names).unique(["problem", "method"], keep="first", maintain_order=True) if names else pl.DataFrame()

    def _outcome(self, problem: str, best: pl.DataFrame, winner: str | None, goal, price) -> str:
        """Say who is cheapest on a problem, if that is beyond doubt."""
        where, mine = self.declaration.problems[problem], best.filter(pl.col("problem") == problem)
        titles = {name: method.title for name, method in self.declaration.methods.items()}
        aim, nearest = self.goal(goal), self._nearest(problem, goal, price)
        least = "cheapest" if aim.levelled else "best"
        if not mine["reached"].sum():
            return f"On {where}, no method reached the goal."
        if aim.levelled and (mine["cost"] == 0).all():
            return f"On {where}, the goal is met at the start: there is nothing to compare."
        if nearest is None:
            setting = mine["setting"][0]
            return f"On {where}, {titles[mine['method'][0]]} {f'is {least} with {setting}' if setting else 'has no rival'}."
        first, rival, between = nearest
        what = "error rates of " if not aim.levelled and is_accuracy(aim.metric) else ""
        compared = f"{what}{titles[first]} to {titles[rival]}: {ratio_words(between)}"
        if winner is not None:
            return f"On {where}, {titles[first]} is {least} ({compared})."
        reason = "" if between.decided else f", since {too_few(between)}"
        return f"On {where}, no winner is certain{reason} ({compared})."

    def _choice(self) -> str:
        """Say on which seeds settings were chosen and reported."""
        declared = self.declaration
        if declared.tuned_on:
            return f"Settings were chosen on {seed_words(declared.tuned_on)} and are reported on {seed_words(declared.seeds)}."
        settings = (
            [] if self.runs.is_empty() else self.runs.group_by("problem", "method").agg(pl.col("setting").n_unique())["setting"]
        )
        several = any(count > 1 for count in settings)
        return "Settings were chosen and are reported on the same seeds." if several else "Every method has one setting."

    def _not_played(self) -> str:
        """Say how many runs could not be played; `broken` says why."""
        if not self.broken:
            return ""
        count = len(self.broken)
        return f" {count} {'run' if count == 1 else 'runs'} could not be played (broken), such as {name_of(self.broken[0][0])}."

    def _claimed(self, claim: Claim) -> list[str]:
        """Return the problems that a claim is about: by default those on which both methods play, of those of its goal."""
        goal, methods = self.goal(claim.goal), self.declaration.methods
        played = [
            name
            for name in self.declaration.problems
            if name in methods[claim.method].problems and name in methods[claim.rival].problems
        ]
        return [name for name in played if name in claim.problems] if claim.problems else [n for n in played if goal.about(n)]

    def _asked(self, claim: Claim) -> tuple[str, str]:
        """Return the names of the goal and the price of a claim."""
        declared = self.declaration
        return claim.goal or next(iter(declared.goals)), claim.price or next(iter(declared.prices))

    def _met(self, best: pl.DataFrame) -> list[str]:
        """Return the problems in a table."""
        return [] if best.is_empty() else best["problem"].unique(maintain_order=True).to_list()


def _named(what: str, name: str | None, known: dict, none: str):
    if not known:
        raise UserError(none)
    if name is not None and name not in known:
        raise unknown(what, name, known)
    return known[name if name is not None else next(iter(known))]
