"""Hubs that play rounds by themselves, without their network: the compiled run's numbers, and what hubs may not say."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.engines.flower.test_hubs import CLIENTS, compiled, configured, passed, untimed
from tests.helpers.in_process_hubs import InProcessHubs

NICE = '[sampler]\nkind = "nice"\nsize = 2\n'


def in_hubs(algorithm: str, rounds: int = 3, more: str = "") -> str:
    return NICE + f'[algorithm]\nkind = "in-hubs"\nrounds = {rounds}\n{more}\n[algorithm.algorithm]\n{algorithm}\n'


FEDAVG = 'kind = "fedavg"\nlr = 0.001\nsteps = 2'
ALGORITHMS = {
    "fedavg": in_hubs(FEDAVG),
    "sppm": in_hubs('kind = "sppm"\ngamma = 0.001\ninner = 3\nsolver = { kind = "bfgs", convexity = 0.0 }', rounds=2),
    "scaffold": in_hubs('kind = "scaffold"\nlr = 0.001\nsteps = 2'),
    "scaffnew": in_hubs('kind = "scaffnew"\nlr = 0.001\nprobability = 0.5'),
    "coded": in_hubs(FEDAVG) + '[exchange]\nup = { kind = "qsgd", bits = 4 }\n',
    "remembered": in_hubs(FEDAVG) + '[exchange]\nup = { kind = "top-k", count = 2 }\nfeedback = "ef21"\n',
    "ef21 above": in_hubs(FEDAVG, more='up = { kind = "top-k", count = 1 }\nfeedback = "ef21"'),
    "ef14 above": in_hubs(FEDAVG, more='up = { kind = "qsgd", bits = 2 }\nfeedback = "ef14"'),
    "momentum": in_hubs(FEDAVG, more='server_optimiser = { kind = "sgd", lr = 0.7, momentum = 0.9, nesterov = true }'),
    "losses": in_hubs(FEDAVG) + '[faults]\nloss = 0.4\nmissing = "skip"\n',
    "repeats": in_hubs(FEDAVG) + '[faults]\nloss = 0.4\nmissing = "repeat"\n',
}


@pytest.mark.parametrize("hubs", ["count = 3", f"of = {[k % 4 for k in range(CLIENTS)]}"], ids=["consecutive", "in turn"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_hubs_play_the_compiled_run(name, hubs):
    """Numbers to 1e-10, all counts, and the bytes on the server's link, of one message and one reply of each hub a round."""
    experiment = configured(ALGORITHMS[name], hubs)
    expected, place = compiled(experiment), InProcessHubs(experiment)
    trace = place.session().run().trace
    np.testing.assert_allclose(trace.x, expected.x, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(trace.columns["value"], expected.columns["value"], rtol=1e-10)
    assert untimed(trace) == untimed(expected) and passed(trace) == passed(expected)
    ((_, messages, _, down, up),) = passed(trace)
    assert place.payloads == {"down": down, "up": up, "messages": messages}
    assert not {"ask", "sum"} & {*place.headers}
