"""decent-bench's algorithms of `decent_bench.algorithms.federated`, run by their own `run`."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false
import numpy as np
from decent_array import interoperability as iop
from decent_bench.agents import Agent
from decent_bench.algorithms import federated
from decent_bench.costs import L2RegularizerCost, LinearRegressionCost
from decent_bench.networks import FedNetwork
from decent_bench.schemes import ClientSelectionScheme
from shared import clients_of, cohorts_of, main, start_of

iop.set_backend("numpy")


class Drawn(ClientSelectionScheme):
    """The cohorts of a vector."""

    def __init__(self, vector, agents):
        self.cohorts, self.agents = cohorts_of(vector), agents

    def select(self, clients, iteration):
        return [self.agents[number] for number in self.cohorts[iteration]]


def player(algorithm, **names):
    """Return what plays a vector; `names` says which parameter of the vector is which field of the algorithm."""

    def play(vector):
        p, agents, states, changes = vector["parameters"], [], [start_of(vector).tolist()], []
        for client in clients_of(vector):
            rows = [
                (iop.from_numpy(a), iop.from_numpy(np.array([b])))
                for a, b in zip(client.features, client.targets, strict=True)
                # Every row twice, which changes no mean and no weight: the cost fails with a single row.
                for _ in range(2)
            ]
            # The regulariser is |x|^2 / 2.
            agents.append(Agent(LinearRegressionCost(rows) + client.mu * L2RegularizerCost((3,))))
        network = FedNetwork(agents)
        steps = p["local_steps"]
        options = {
            "step_size": p["lr"],
            "num_local_steps": dict(zip(agents, steps, strict=True)) if isinstance(steps, list) else steps,
            "selection_scheme": Drawn(vector, agents),
            "x0": iop.from_numpy(start_of(vector)),
            **{field: p[name] for field, name in names.items()},
        }

        def look(iteration):
            before = np.array(states[-1])
            cohort = cohorts_of(vector)[iteration]
            changes.append([{"change": (iop.to_numpy(agents[number].x) - before).tolist()} for number in cohort])
            states.append(iop.to_numpy(network.server().x).tolist())

        algorithm(**options).run(network, len(vector["rounds"]), progress_callback=look)
        return {
            "rounds": [{"exchanges": [{"replies": own}], "server": {"x": x}} for own, x in zip(changes, states[1:], strict=True)]
        }

    return play


SERVER = {"server_step_size": "server_lr", "beta_1": "beta1", "epsilon": "tau"}

PLAYERS = {
    "fedavg-equal": player(federated.FedAvg),
    "fedprox": player(federated.FedProx, penalty="mu"),
    "scaffold-2": player(federated.Scaffold, server_step_size="server_lr"),
    "fednova": player(federated.FedNova),
    "fedadam": player(federated.FedAdam, **SERVER, beta_2="beta2"),
    "fedyogi": player(federated.FedYogi, **SERVER, beta_2="beta2"),
    "fedadagrad": player(federated.FedAdagrad, **SERVER),
    "feddyn-steps": player(federated.FedDyn, penalty="alpha"),
}

if __name__ == "__main__":
    main(PLAYERS, "no such class in decent_bench.algorithms.federated")
