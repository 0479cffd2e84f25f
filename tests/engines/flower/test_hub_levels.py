"""Hubs of hubs, without their network: each hop sends on, adds up or plays as one between server and clients does."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.engines.flower.test_hub_serving import BFGS
from tests.engines.flower.test_hubs import ALGORITHMS, compiled, configured, untimed
from tests.helpers.in_process_hubs import InProcessHubs

LEVELS = "count = [2, 3]"


def links(place) -> list[list]:
    """Messages, and bytes down and up, that passed the link above each level of hubs, the lowest level first."""
    below = [each for each in place.nodes_of if isinstance(each, InProcessHubs)]
    own = [[place.payloads[name] for name in ("messages", "down", "up")]]
    return [np.sum(each, 0).tolist() for each in zip(*map(links, below), strict=True)] + own if below else own


def counted(trace) -> list[list]:
    """What the ledger has of these."""
    return [[link[f"server_{name}"] for name in ("contacts", "bytes_down", "bytes_up")] for link in trace.ledger.links()]


CASES = {name: ALGORITHMS[name] for name in ("fedavg", "scaffold", "feddcd", "scaffnew")}


@pytest.mark.parametrize("name", CASES)
def test_hubs_of_hubs_play_the_compiled_run(name):
    """Numbers to 1e-10, all counts, and what passes each link."""
    experiment = configured(CASES[name], LEVELS)
    expected, place = compiled(experiment), InProcessHubs(experiment)
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10)
    assert untimed(trace) == untimed(expected) and trace.ledger.links() == expected.ledger.links()
    assert links(place) == counted(expected)
