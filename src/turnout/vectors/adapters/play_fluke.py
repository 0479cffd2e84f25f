"""fluke's `Server` and `Client` classes of `fluke.algorithms`, run by its own `CentralizedFL.run`."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false
from shared import cohorts_of, main, start_of
from shared_torch import Regression, loss_of, rows_of, with_torchvision

with_torchvision()

import torch  # noqa: E402
from fluke import DDict, FlukeENV  # noqa: E402
from fluke.algorithms import CentralizedFL  # noqa: E402
from fluke.algorithms.ditto import DittoClient  # noqa: E402
from fluke.algorithms.fedavgm import FedAVGMServer  # noqa: E402
from fluke.algorithms.feddyn import FedDyn, FedDynClient, FedDynServer  # noqa: E402
from fluke.algorithms.fedexp import FedExPServer  # noqa: E402
from fluke.algorithms.fednova import FedNovaClient, FedNovaServer  # noqa: E402
from fluke.algorithms.fedopt import FedOptServer  # noqa: E402
from fluke.algorithms.fedprox import FedProxClient  # noqa: E402
from fluke.algorithms.fedsam import FedSAMClient, SAMOptimizer  # noqa: E402
from fluke.algorithms.scaffold import SCAFFOLDClient, SCAFFOLDServer  # noqa: E402
from fluke.client import Client  # noqa: E402
from fluke.config import OptimizerConfigurator  # noqa: E402
from fluke.data import FastDataLoader  # noqa: E402
from fluke.server import Server  # noqa: E402


def drawn_by(vector, server):
    """Return a `server` class whose cohorts are those of the vector."""

    class Drawn(server):
        cohorts = iter(cohorts_of(vector))

        def get_eligible_clients(self, eligible_perc):
            return [self.clients[number] for number in next(self.cohorts)]

    return Drawn


class Watch:
    """Notes x of the server before each round, and what clients change."""

    def __init__(self, clients, own):
        self.states, self.changes, self.own_states, self.clients, self.own = [], [], [], clients, own

    def start_round(self, round, global_model):
        self.note_own()
        self.states.append(parameters(global_model))
        self.changes.append([])

    def note_own(self):
        """Note the models of the clients, where they have their own."""
        self.own_states.append([{self.own: parameters(one.personalized_model)} for one in self.clients] if self.own else [])

    def end_fit(self, round, client_id, model, loss):
        self.changes[-1].append([a - b for a, b in zip(parameters(model), self.states[-1], strict=True)])

    def __getattr__(self, name):
        # The other events.
        return lambda *arguments, **named: None


def parameters(model):
    """Return the parameters of a model as a list."""
    return next(model.parameters()).detach().reshape(-1).tolist()


def player(
    server=Server,
    client=Client,
    of_server=None,
    of_client=None,
    federation=CentralizedFL,
    weighted=True,
    optimizer=torch.optim.SGD,
    note="",
    own="",
):
    """Return what plays a vector with classes of fluke; `of_server` and `of_client` make their options of its parameters.

    `own` is the part of the clients' states that is their own model.
    """

    def play(vector):
        p = vector["parameters"]
        FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
        chosen = DDict(name=optimizer, lr=p["lr"]) | ({"momentum": 0.0} if client is FedNovaClient else {})
        configured = OptimizerConfigurator(chosen, DDict(name="StepLR", step_size=10**6, gamma=1.0))
        clients = []
        for number in range(len(vector["problem"]["clients"])):
            features, targets = rows_of(vector, number)
            data = FastDataLoader(features, targets, num_labels=1, batch_size=len(targets), shuffle=False, skip_singleton=False)
            steps = p["local_steps"][number] if isinstance(p["local_steps"], list) else p["local_steps"]
            options = {"local_epochs": steps, "clipping": 0} | (of_client(p) if of_client else {})
            if own:
                options["model"] = Regression(start_of(vector))
            loss = loss_of(vector["problem"]["mu"])
            made_of = {"train_set": data, "test_set": None, "optimizer_cfg": configured, "loss_fn": loss}
            clients.append(client(index=number, **made_of, **options))
        options = of_server(p) if of_server else {}
        made = drawn_by(vector, server)(Regression(start_of(vector)), None, clients, weighted=weighted, **options)
        run, watch = federation(len(clients), None, DDict(), clients=clients, server=made), Watch(clients, own)
        for one in (run, *clients):
            one.attach([watch])
        run.run(len(vector["rounds"]), 0.5)
        states = [*watch.states, parameters(made.model)][1:]
        watch.note_own()
        rounds = [
            {"exchanges": [{"replies": [{"change": change} for change in changes]}], "server": {"x": x}, "clients": own_states}
            for changes, x, own_states in zip(watch.changes, states, watch.own_states[1:], strict=True)
        ]
        return {"rounds": rounds, "note": note}

    return play


def adaptive(rule):
    """Return what plays a vector with an adaptive optimiser at the server."""

    def options(p):
        return {"mode": rule, "lr": p["server_lr"], "beta1": p["beta1"], "beta2": p["beta2"], "tau": p["tau"]}

    return player(FedOptServer, of_server=options)


PLAYERS = {
    "fedavg": player(),
    "ditto": player(client=DittoClient, of_client=lambda p: {"tau": p["own_steps"], "lam": p["lam"]}, own="v_i"),
    "fedprox": player(client=FedProxClient, of_client=lambda p: {"mu": p["mu"]}, weighted=False),
    "scaffold-2": player(SCAFFOLDServer, SCAFFOLDClient, lambda p: {"global_step": p["server_lr"]}, weighted=False),
    "fednova": player(FedNovaServer, FedNovaClient),
    "fedadam": adaptive("adam"),
    "fedyogi": adaptive("yogi"),
    "fedadagrad": adaptive("adagrad"),
    "fedavgm": player(FedAVGMServer, of_server=lambda p: {"momentum": p["beta"]}),
    "feddyn-steps": player(
        FedDynServer, FedDynClient, lambda p: {"alpha": p["alpha"]}, lambda p: {"alpha": p["alpha"]}, FedDyn, weighted=False
    ),
    "fedexp": player(FedExPServer, weighted=False),
    "fedsam": player(client=FedSAMClient, of_client=lambda p: {"rho": p["radius"]}, optimizer=SAMOptimizer),
}

if __name__ == "__main__":
    main(PLAYERS, "no such module in fluke.algorithms", ("apfl", "fedbabu", "fedbn", "fedper", "fedrep", "pfedme"))
