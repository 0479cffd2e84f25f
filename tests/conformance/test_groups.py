"""Every algorithm with every group of leaves: engines agree, lost replies are mended, runs go on, devices share clients."""

from functools import lru_cache, partial

import jax
import numpy as np
import pytest

import turnout as t
from tests.helpers.centred import centred
from tests.helpers.examples import ALGORITHMS, ASYNCHRONOUS
from turnout.testing.algorithms import CHECKS, case

GROUPS = {
    "statistics": (),
    "frozen": (t.Frozen("bias"),),
    "personal-before": (t.Personal("bias", lr=0.1, batch=2, steps=2),),
    "personal-within": (t.Personal("bias", lr=0.05, trained="within"),),
    "personal-after": (t.Personal("bias", lr=0.1, batch=2, steps=2, trained="after"),),
    "personal-statistics": (t.Personal(["bias", "running_mean"], lr=0.1, steps=2),),
}
"""Statistics are averaged by the server, unless they are personal."""

ALL = {**{name: example.on(3.0) for name, example in ALGORITHMS.items()}, **ASYNCHRONOUS}
"""Those of `PERSONAL_LEAVES` ask for groups themselves, and take no others."""

FRAGMENTS = ("streaming-diloco",)
"""Those whose messages have a part of the parameters: personal leaves cannot be trained at these, before the local work."""

BEFORE = ("personal-before", "personal-statistics")

CASES = [(group, name) for group in GROUPS for name in ALL if not (group in BEFORE and name in FRAGMENTS)]
EVERY = pytest.mark.parametrize(("group", "name"), CASES, ids=[f"{group}-{name}" for group, name in CASES])

AGREEMENT = ("engines_agree", "lost_replies_are_mended", "resumes_to_the_bit", "goes_on_to_the_bit")


@lru_cache(1)
def case_of(name, group):
    return case(ALL[name], t.Grouped.of(centred(), *GROUPS[group]))


@pytest.mark.tiers(quick=[], longer=["frozen-mime"], slow=["statistics-icgm", "personal-before-feddcd", "personal-after-fedavg"])
@pytest.mark.filterwarnings("ignore:a client takes part")
@EVERY
def test_every_algorithm_with_every_group(name, group):
    for check in AGREEMENT:
        CHECKS[check](case_of(name, group))


@pytest.mark.filterwarnings("ignore:a client takes part")
@pytest.mark.tiers(quick=[], slow=["statistics-scaffold"])
@EVERY
def test_every_algorithm_with_every_group_on_a_mesh(name, group):
    problem = t.Grouped.of(centred(), *GROUPS[group])
    one, other = (t.run(ALL[name], problem, rounds=3, mesh=devices, metrics=("value",)) for devices in (1, 4))
    for left, right in zip(*(jax.tree.leaves((trace.x, trace.columns)) for trace in (one, other)), strict=True):
        np.testing.assert_allclose(right, left, rtol=1e-12, atol=1e-12)
    if one.own is not None:
        for i in range(centred().clients):
            jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12), other.own(i), one.own(i))


@pytest.mark.longer
@pytest.mark.filterwarnings("ignore:a client takes part")
@pytest.mark.parametrize("name", FRAGMENTS)
def test_personal_leaves_are_not_trained_at_a_part_of_the_parameters(name):
    with pytest.raises(t.UserError, match="is sent no parameters"):
        t.run(ALL[name], t.Grouped.of(centred(), *GROUPS["personal-before"]), rounds=1)
