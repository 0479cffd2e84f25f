"""Samplers that know beforehand how large the clients' feedback is, as their authors assume."""

from dataclasses import fields, replace

import turnout as t
from turnout.core.seeds import Seeds
from turnout.runs.session import Session
from turnout.samplers.probabilities.by_client import ByClient
from turnout.samplers.weighted import Weighted


@t.record
class InformedLocalGd(t.MbLocalGd):
    """MB-LocalGD whose sampler is given G, the size of the feedback of all clients in a first round with everyone."""

    sampler: Weighted

    def bind(self, problem):
        rule = self.sampler.probability
        own = {field.name: getattr(self, field.name) for field in fields(t.MbLocalGd)}
        everyone = t.MbLocalGd(**own | {"sampler": t.Independent(rule, size=problem.population.count)})
        session = Session(everyone, problem, seeds=Seeds.of(0), rounds=1, every=1, metrics=("value",))
        (state,) = session.run().progress.samplers
        size = state.unit if isinstance(rule, ByClient) else state.bound
        sampler = replace(self.sampler, probability=replace(rule, bound=float(size)))
        return t.MbLocalGd.bind(replace(self, sampler=sampler), problem)
