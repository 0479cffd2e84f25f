"""The planner: races at each price, the final, and what they show."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from turnout.accounting.ledger import EVENTS
from turnout.accounting.prices import Price
from turnout.core.errors import UserError
from turnout.planner.blame import nothing_left
from turnout.planner.candidates import Contender, Family, Priced, PricedFamily
from turnout.planner.envelope import ANCHORS, FURTHER, RACE, RATES, WithEvent, costs_of, front, near, ranked
from turnout.planner.plan import Loser, Plan, Spent
from turnout.planner.race import Race, Standing
from turnout.planner.task import OWN, PROBLEM, Task, allowed
from turnout.planner.trials import TrialStore
from turnout.studies.cases import Cases
from turnout.studies.grid import settings_of
from turnout.studies.statistics import interval, median, quartiles, ratio

FRESH = 1000
"""The first of the fresh seeds of the final."""

FINALISTS = 4
"""The most candidates of the final."""

LONGEST = 10.0
"""How far a finalist is played, in multiples of the largest cost of the first one; at other prices, of its own in the race."""

Watch = Callable[[str, int], None]
"""Told what the planner is doing and how many runs it has begun; may raise to interrupt it."""


class Planner:
    """Plans a task.

    Args:
        task: The task.
        out: Folder in which runs are kept.
        cases: Builds the problem.
        watch: Told what the planner is doing.
        quick: Whether programs are made to compile quickly: a plan's runs are short.
    """

    def __init__(self, task: Task, out: Path | None, cases: Cases, watch: Watch, *, quick: bool = True):
        self.task, self.store, self.watch = task, TrialStore(out), watch
        names, barred = allowed(task)
        self.refused = {name: next(iter(whys.values())) for name, whys in barred.items()}
        # A mistake in the problem is told; what does not fit it is left out.
        for name in names[:1]:
            cases.of(settings_of(task.declaration, PROBLEM, name)[0].experiment())
        self.families: list[Family] = []
        for name in names:
            try:
                self.families.append(Family(task.declaration, name, cases, self.store, task.limits, quick=quick))
            except UserError as error:
                if name == OWN:
                    raise
                # Where its line is in the list of families tells a user nothing.
                self.refused[name] = str(error.__cause__ or error)
        self.refused |= {family.name: family.why for family in self.families if family.why}
        self.families = [family for family in self.families if not family.why]
        if not self.families:
            raise UserError(nothing_left(task, cases, self.refused))

    def plan(self, note: str = "", *, envelope: bool = True) -> Plan:
        """Find the winner at each price, and with `envelope` at prices between."""
        began = time.perf_counter()
        price, *others = self.task.prices
        try:
            standings, close = self._race(price, self.task.limits.budget or math.inf)
            finalists = self._finalists(close, standings)
            ranking = self._final(finalists, price)
            elsewhere = pl.DataFrame([self._elsewhere(other) for other in others])
            lower = self._envelope(price, [*close]) if envelope else pl.DataFrame()
        finally:
            self.store.write(now=True)
        best = finalists[int(ranking["finalist"][0])].experiment
        losers = self._losers(standings, {finalists[k].setting.method for k in ranking["finalist"]}, price)
        rows = [trial.frame[-1:] for trial in self.store.trials.values() if trial.frame.height]
        ends = pl.concat(rows, how="diagonal_relaxed")
        spent = Spent(
            seconds=time.perf_counter() - began,
            runs=len(rows),
            rounds=int(ends["round"].sum()),
            queries=int(ends["queries_total"].sum()),
            cost=float(np.sum(np.asarray(price.cost(ends), float))),
        )
        best = replace(best, name=self.task.name, prices=self.task.prices)
        return Plan(
            name=self.task.name,
            target=self.task.words,
            price=price,
            ranking=ranking.drop("finalist"),
            losers=losers,
            best=best,
            elsewhere=elsewhere,
            against=self.against,
            envelope=lower,
            points=self._points(price),
            spent=spent,
            note=" ".join([*([note] if note else []), *self._edges(finalists[int(ranking["finalist"][0])])]),
        )

    def before_runs(self) -> pl.DataFrame:
        """Return what is known without a run: the price of a round of each family's middle, and what its clients keep.

        The price is infinite where it depends on data without a bound.
        """
        price, rows = self.task.prices[0], []
        for family in self.families:
            estimate = family.structures[family.centre()].estimate(0)
            most = estimate.cost(price).most
            facts = {"family": self._title(family.name), "price of a round": math.inf if most is None else most / estimate.rounds}
            rows.append({**facts, "bytes of a client": estimate.client.bytes, "sums suffice": estimate.sums_only})
            self.watch(family.name, 0)
        return pl.DataFrame(rows).sort("price of a round", maintain_order=True)

    def _race(self, price: Price, budget: float) -> tuple[list[Standing[Priced]], dict[Contender, list[float]]]:
        """Return the families with their costs, and the costs of the candidates that remain at the end, cheapest first."""
        priced = [PricedFamily(family, price, self.store, budget) for family in self.families]
        race = Race(priced, lambda doing: self.watch(doing, len(self.store.trials)))
        race.explore()
        if math.isinf(race.best):
            raise UserError(self._nobody(price, budget))
        if race.best == 0:
            raise UserError(
                f"{self.task.words} costs nothing at {price.label}: it holds at the start, or nothing that is charged happens"
            )
        close = race.narrow(race.close())
        return race.standings, {one.contender: costs for one, costs in close.items()}

    def _finalists(self, close: dict[Contender, list[float]], standings: list[Standing[Priced]]) -> list[Contender]:
        """Return the two cheapest candidates, then the cheapest one of each further family; those that dropped out come last."""
        firsts: dict[str, Contender] = {}
        for one in close:
            firsts.setdefault(one.setting.method, one)
        for standing in sorted(standings, key=lambda one: one.best):
            if math.isfinite(standing.best):
                costs = standing.costs[standing.place]
                firsts.setdefault(standing.family.name, min(costs, key=lambda one: costs[one]).contender)
        return list(dict.fromkeys([*list(close)[:2], *firsts.values()]))[:FINALISTS]

    def _final(self, finalists: list[Contender], price: Price) -> pl.DataFrame:
        """Return the costs of the finalists on fresh seeds."""
        seeds = range(FRESH, FRESH + self.task.limits.seeds)
        budget, costs, cap = self.task.limits.budget or math.inf, [], math.inf
        for one in finalists:
            own = []
            for seed in seeds:
                own.append(Priced(one, price, self.store, budget).play(seed, cap).cost)
                self.watch("final", len(self.store.trials))
            costs.append(np.array(own))
            cap = LONGEST * max((cost for cost in costs[0] if math.isfinite(cost)), default=math.inf)
        order = sorted(range(len(finalists)), key=lambda k: (float(median(costs[k])), float(np.mean(costs[k]))))
        return pl.DataFrame([self._row(k, finalists[k], costs[k], costs[order[0]]) for k in order])

    def _row(self, number: int, one: Contender, costs: np.ndarray, winner: np.ndarray) -> dict:
        """Return the row of a finalist in the ranking."""
        (low, high), (least, most) = quartiles(costs), interval(costs)
        to_winner = ratio(costs, winner)
        return {
            "finalist": number,
            **self._named(one),
            "cost": float(median(costs)),
            "low": low,
            "high": high,
            "interval_low": least,
            "interval_high": most,
            "ratio": to_winner.value,
            "ratio_low": to_winner.interval.low,
            "ratio_high": to_winner.interval.high,
            "reached": int(np.isfinite(costs).sum()),
            "seeds": costs.size,
        }

    def _edges(self, winner: Contender) -> list[str]:
        """Say which numbers of the winner are at an end of their grid."""
        family = next(family for family in self.families if family.name == winner.setting.method)
        ends = [key for key, value in winner.setting.values.items() if family.at_an_end(key, value)]
        return [f"At an end of its grid: {', '.join(ends)}; a wider grid may be cheaper."] if ends else []

    def _elsewhere(self, price: Price) -> dict:
        """Return the winner at another price, by the seeds of the race."""
        _, close = self._race(price, math.inf)
        one, costs = next(iter(close.items()))
        return {"price": price.label, **self._named(one), "cost": float(np.median(costs))}

    @property
    def against(self) -> str:
        """The event whose price varies."""
        charged = self.task.prices[0].cost({name: float(name in ("exchanges", "iterations")) for name in EVENTS})
        return self.task.limits.against or ("contacts" if charged else "exchanges")

    def _envelope(self, price: Price, close: list[Contender]) -> pl.DataFrame:
        """Return the least cost at several prices of an event, by the seeds of the race and further ones, and whose it is."""
        ends = pl.concat([close[0].trial(seed).frame[-1:] for seed in RACE], how="diagonal_relaxed")
        even = float(np.sum(np.asarray(price.cost(ends), float)) / max(1, ends[self.against].sum()))
        known = dict.fromkeys(close)
        for anchor in ANCHORS:
            known |= dict.fromkeys(self._race(WithEvent(price, self.against, anchor * even), math.inf)[1])
        prices = [WithEvent(price, self.against, float(rate)) for rate in even * RATES]
        kept = near(known, prices)
        for one in kept:
            self._play_further(one, price)
        best = [ranked(kept, other, (*RACE, *FURTHER))[0] for other in prices]
        rows = zip(prices, best, strict=True)
        return pl.DataFrame([{"rate": other.rate, "cost": cost, **self._named(one)} for other, (cost, one) in rows])

    def _play_further(self, one: Contender, price: Price) -> None:
        """Play a candidate to the target on the seeds of the race and on further ones, but not beyond all measure."""
        costs = costs_of(one, price, RACE)
        cap = LONGEST * float(np.max(costs, where=np.isfinite(costs), initial=0.0)) or math.inf
        for seed in (*RACE, *FURTHER):
            Priced(one, price, self.store, math.inf).play(seed, cap)
            self.watch("other prices", len(self.store.trials))

    def _points(self, price: Price) -> pl.DataFrame:
        """Return the cost and the number of an event of each candidate that reached the target on the first seed."""
        contenders = [
            one for family in self.families for place in family.structures for one in family.played(place) if one.trial(0).met
        ]
        ends = pl.concat([one.trial(0).frame[-1:] for one in contenders], how="diagonal_relaxed")
        costs, counts = np.asarray(price.cost(ends), float), ends[self.against].to_numpy().astype(float)
        rows = zip(contenders, costs, counts, front(costs, counts).tolist(), strict=True)
        return pl.DataFrame([{**self._named(one), "cost": cost, "count": count, "front": on} for one, cost, count, on in rows])

    def _named(self, one: Contender) -> dict[str, str]:
        """Return what tables call a candidate."""
        return {"family": one.setting.method, "title": self._title(one.setting.method), "setting": one.setting.label}

    def _losers(self, standings: list[Standing[Priced]], finalists: set[str], price: Price) -> tuple[Loser, ...]:
        """Say why each of the other families is not in the final."""
        least, losers = min(standing.best for standing in standings), []
        for standing in sorted(standings, key=lambda one: one.best):
            name, played = standing.family.name, [one for costs in standing.costs.values() for one in costs]
            if name in finalists:
                continue
            if math.isfinite(standing.best):
                best = min(standing.costs[standing.place].items(), key=lambda pair: pair[1])[0]
                why = f"costs {standing.best / least:.3g} times as much as the leader on the first seed"
                losers.append(Loser(self._title(name), best.contender.setting.label, why))
            else:
                far = max(one.contender.trial(0).spent(price) for one in played)
                why = f"has not arrived at a cost of {far:.4g}, where the leader's is {least:.4g}"
                broken = next((one.contender.trial(0).broken for one in played if one.contender.trial(0).broken), "")
                losers.append(Loser(self._title(name), "", f"{why}; {broken}" if broken else why))
        return (*losers, *(Loser(self._title(name), "", why) for name, why in self.refused.items()))

    def _title(self, family: str) -> str:
        """Return what tables call a family."""
        return self.task.declaration.methods[family].title

    def _nobody(self, price: Price, budget: float) -> str:
        """Say that no candidate reached the target, and how near one came."""
        metric = self.task.declaration.goals["target"].metric
        frames = [trial.frame for trial in self.store.trials.values() if trial.frame.height]
        # The last round of a run may have cost more than there was.
        within = [frame.filter(pl.Series(np.broadcast_to(price.cost(frame), len(frame)) <= budget)) for frame in frames]
        values = [float(frame[metric].min()) for frame in within if frame.height]
        limit = "" if math.isinf(budget) else f" at a cost of at most {budget:g}"
        nearest = f"the nearest comes to {metric} = {min(values, default=math.inf):.3g}"
        return f"no candidate reaches {self.task.words}{limit}: {nearest}; raise the target, the budget or [run] rounds"
