"""Flower: its strategy FedAvg in a simulation of as many nodes as there are clients, which draws cohorts of its own."""

import logging
import os
import sys
from importlib.metadata import version

# Nothing is sent home while time is taken.
os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}

from flwr.app import ArrayRecord  # noqa: E402
from flwr.serverapp import ServerApp  # noqa: E402
from flwr.serverapp.strategy import FedAvg  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402

from benchmarks.peers import flower_client  # noqa: E402
from benchmarks.peers.in_torch import model_of, parameters  # noqa: E402
from benchmarks.peers.serve import Workload, serve  # noqa: E402

os.environ[flower_client.VARIABLE] = os.path.abspath(sys.argv[1])
app = ServerApp()


@app.main()
def main(grid, context):
    logging.getLogger("flwr").setLevel(logging.ERROR)
    serve(version("flwr"), lambda w: starter(grid, w))


def starter(grid, w: Workload):
    def start(rounds: int):
        strategy = FedAvg(fraction_train=w.cohort / w.clients, fraction_evaluate=0.0, min_available_nodes=w.clients)
        model = model_of(w)
        arrays = ArrayRecord(model.state_dict())

        def play():
            result = strategy.start(grid, arrays, num_rounds=rounds)
            model.load_state_dict(result.arrays.to_torch_state_dict())
            return parameters(model)

        return play

    return start


if __name__ == "__main__":
    run_simulation(
        app, flower_client.app, num_supernodes=Workload.read(sys.argv[1]).clients,
        backend_config={"init_args": {"include_dashboard": False}, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )  # fmt: skip
