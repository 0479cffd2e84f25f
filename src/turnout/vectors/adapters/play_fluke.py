"""fluke's `Server` and `Client` classes of `fluke.algorithms`, run by its own `CentralizedFL.run`."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false
from shared import cohorts_of, main, start_of
from shared_torch import Regression, loss_of, rows_of, with_torchvision

with_torchvision()

import torch  # noqa: E402
from fluke import DDict, FlukeENV  # noqa: E402
from fluke.algorithms import CentralizedFL  # noqa: E402
from fluke.algorithms.apfl import APFLClient, APFLServer  # noqa: E402
from fluke.algorithms.ditto import DittoClient  # noqa: E402
from fluke.algorithms.fedavgm import FedAVGMServer  # noqa: E402
from fluke.algorithms.fedbabu import FedBABU, FedBABUClient, FedBABUServer  # noqa: E402
from fluke.algorithms.fedbn import FedBNClient  # noqa: E402
from fluke.algorithms.feddyn import FedDyn, FedDynClient, FedDynServer  # noqa: E402
from fluke.algorithms.fedexp import FedExPServer  # noqa: E402
from fluke.algorithms.fednova import FedNovaClient, FedNovaServer  # noqa: E402
from fluke.algorithms.fedopt import FedOptServer  # noqa: E402
from fluke.algorithms.fedper import FedPerClient, FedPerServer  # noqa: E402
from fluke.algorithms.fedprox import FedProxClient  # noqa: E402
from fluke.algorithms.fedrep import FedRepClient, FedRepServer  # noqa: E402
from fluke.algorithms.fedsam import FedSAMClient, SAMOptimizer  # noqa: E402
from fluke.algorithms.fedsgd import FedSGDClient  # noqa: E402
from fluke.algorithms.pfedme import PFedMeClient, PFedMeOptimizer, PFedMeServer  # noqa: E402
from fluke.algorithms.scaffold import SCAFFOLDClient, SCAFFOLDServer  # noqa: E402
from fluke.client import Client  # noqa: E402
from fluke.config import OptimizerConfigurator  # noqa: E402
from fluke.data import FastDataLoader  # noqa: E402
from fluke.nets import EncoderHeadNet  # noqa: E402
from fluke.server import Server  # noqa: E402


def drawn_by(vector, server):
    """Return a `server` class whose cohorts are those of the vector."""

    class Drawn(server):
        cohorts = iter(cohorts_of(vector))

        def get_eligible_clients(self, eligible_perc):
            return [self.clients[number] for number in next(self.cohorts)]

    return Drawn


class Body(torch.nn.Module):
    """The leaf that is sent; the other one makes the predictions."""

    def __init__(self, start):
        torch.nn.Module.__init__(self)
        self.x = torch.nn.Parameter(torch.tensor(start))

    def forward(self, features):
        return features, self.x


class Head(Body):
    """The leaf that stays."""

    def forward(self, found):
        features, body = found
        x = torch.cat([body, self.x])
        return features @ x, x


class Norm(Head, torch.nn.modules.batchnorm._BatchNorm):
    """The leaf that stays, of the class that FedBN looks for."""


class TwoRates(torch.optim.SGD):
    """Gradient steps, of the head, which has one number, with a rate of its own."""

    def __init__(self, params, lr, own_lr):
        super().__init__([{"params": [x], "lr": own_lr if len(x) == 1 else lr} for x in params], lr)


def whole(vector):
    """Return the first models of the server and of a client."""
    return Regression(start_of(vector)), Regression(start_of(vector))


def in_parts(leaf, kind=Head, sent=lambda model: model.encoder):
    """Return what makes the first models of the server and of a client, whose `leaf` stays there."""

    def make(vector):
        start, p = vector["start"], vector["parameters"]
        own = p["head"] if "head" in p else start["clients"][0][leaf]
        models = [EncoderHeadNet(Body(start["server"]["x"]["body"]), kind(own)) for _ in range(2)]
        return sent(models[0]), models[1]

    return make


class Watch:
    """Notes x of the server before each round, what clients change, and their own states."""

    def __init__(self, clients, own, leaf):
        self.states, self.changes, self.own_states = [], [], []
        self.clients, self.own, self.leaf = clients, own, leaf

    def start_round(self, round, global_model):
        self.note(global_model)
        self.changes.append([])

    def note(self, model):
        """Note x and the states of the clients, where they have some."""
        self.states.append(parameters(model))
        self.own_states.append([self.own(one) for one in self.clients])

    def end_fit(self, round, client_id, model, loss):
        change = [a - b for a, b in zip(parameters(model), self.states[-1], strict=True)]
        self.changes[-1].append({"change": self.part(change)})

    def part(self, values):
        """Return x as the vector has it."""
        return {self.leaf: values} if self.leaf else values

    def __getattr__(self, name):
        # The other events.
        return lambda *arguments, **named: None


def parameters(model, which=0):
    """Return the first parameters of a model as a list, or others."""
    return [*model.parameters()][which].detach().reshape(-1).tolist()


def player(
    server=Server,
    client=Client,
    of_server=None,
    of_client=None,
    federation=CentralizedFL,
    weighted=True,
    optimizer=torch.optim.SGD,
    of_optimizer=None,
    note="",
    models=whole,
    own=lambda one: {},
    leaf="",
    at_end=False,
):
    """Return what plays a vector with classes of fluke; functions `of_...` make their options of its parameters.

    `models` makes the models, of which the server's has the `leaf` of x, and `own` tells a client's state, or `at_end` alone.
    """

    def play(vector):
        p = vector["parameters"]
        FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
        chosen = DDict(name=optimizer, lr=p["lr"]) | (of_optimizer(p) if of_optimizer else {})
        configured = OptimizerConfigurator(chosen, DDict(name="StepLR", step_size=10**6, gamma=1.0))
        clients = []
        for number in range(len(vector["problem"]["clients"])):
            features, targets = rows_of(vector, number)
            data = FastDataLoader(features, targets, num_labels=1, batch_size=len(targets), shuffle=False, skip_singleton=False)
            steps = p.get("local_steps", 1)
            options = {"local_epochs": steps[number] if isinstance(steps, list) else steps, "clipping": 0}
            made_of = {"train_set": data, "test_set": None, "optimizer_cfg": configured, "model": models(vector)[1]}
            made_of["loss_fn"] = loss_of(vector["problem"]["mu"])
            clients.append(client(index=number, **made_of, **options | (of_client(p) if of_client else {})))
        options = of_server(p) if of_server else {}
        made = drawn_by(vector, server)(models(vector)[0], None, clients, weighted=weighted, **options)
        run, watch = federation(len(clients), None, DDict(), clients=clients, server=made), Watch(clients, own, leaf)
        for one in (run, *clients):
            one.attach([watch])
        run.run(len(vector["rounds"]), 0.5)
        watch.note(made.model)
        rounds = [
            {"exchanges": [{"replies": changes}], "server": {"x": watch.part(x)}, "clients": own_states}
            for changes, x, own_states in zip(watch.changes, watch.states[1:], watch.own_states[1:], strict=True)
        ]
        if at_end:
            for round in rounds[:-1]:
                del round["clients"]
        return {"rounds": rounds, "note": note}

    return play


def adaptive(rule):
    """Return what plays a vector with an adaptive optimiser at the server."""

    def options(p):
        return {"mode": rule, "lr": p["server_lr"], "beta1": p["beta1"], "beta2": p["beta2"], "tau": p["tau"]}

    return player(FedOptServer, of_server=options)


def own_part(name):
    """Return what tells the leaf that stays at a client, the last of its model."""
    return lambda one: {name: parameters(one.model, -1)} if one.model is not None else {}


def own_model(one):
    """Return a client's own model."""
    return {"v_i": parameters(one.personalized_model)}


def theta(one):
    """Return what pFedMe's client has after its steps."""
    return {"theta_i": parameters(one.model)} if one.model is not None else {}


PARTS = {"weighted": False, "leaf": "body"}
TWO_RATES = {"optimizer": TwoRates, "of_optimizer": lambda p: {"own_lr": p["own_lr"]}}

PLAYERS = {
    "fedavg": player(),
    "ditto": player(client=DittoClient, of_client=lambda p: {"tau": p["own_steps"], "lam": p["lam"]}, own=own_model),
    "fedprox": player(client=FedProxClient, of_client=lambda p: {"mu": p["mu"]}, weighted=False),
    "scaffold-2": player(SCAFFOLDServer, SCAFFOLDClient, lambda p: {"global_step": p["server_lr"]}, weighted=False),
    "fednova": player(FedNovaServer, FedNovaClient, of_optimizer=lambda p: {"momentum": 0.0}),
    "fedadam": adaptive("adam"),
    "fedyogi": adaptive("yogi"),
    "fedadagrad": adaptive("adagrad"),
    "fedavgm": player(FedAVGMServer, of_server=lambda p: {"momentum": p["beta"]}),
    "feddyn-steps": player(
        FedDynServer, FedDynClient, lambda p: {"alpha": p["alpha"]}, lambda p: {"alpha": p["alpha"]}, FedDyn, weighted=False
    ),
    "fedexp": player(FedExPServer, weighted=False),
    "fedsam": player(client=FedSAMClient, of_client=lambda p: {"rho": p["radius"]}, optimizer=SAMOptimizer),
    "gd": player(client=FedSGDClient),
    "apfl": player(APFLServer, APFLClient, lambda p: {"tau": 1}, lambda p: {"lam": p["alpha"]}, own=own_model),
    "pfedme": player(
        PFedMeServer,
        PFedMeClient,
        lambda p: {"beta": p["server_lr"]},
        lambda p: {"k": 200},
        weighted=False,
        optimizer=PFedMeOptimizer,
        of_optimizer=lambda p: {"lamda": p["lam"], "mu": 0.0},
        own=theta,
        note="200 steps for each minimiser",
    ),
    "fedper": player(FedPerServer, FedPerClient, **PARTS, models=in_parts("head"), own=own_part("head")),
    "fedbn": player(client=FedBNClient, **PARTS, models=in_parts("norm", Norm, lambda model: model), own=own_part("norm")),
    "fedrep": player(
        FedRepServer,
        FedRepClient,
        of_client=lambda p: {"local_epochs": p["own_steps"], "tau": p["local_steps"]},
        models=in_parts("head"),
        own=own_part("head"),
        **PARTS,
        **TWO_RATES,
    ),
    "fedbabu": player(
        FedBABUServer,
        FedBABUClient,
        of_client=lambda p: {"mode": "head", "fine_tuning_epochs": p["own_steps"]},
        federation=FedBABU,
        models=in_parts("head"),
        own=own_part("head"),
        at_end=True,
        **PARTS,
        **TWO_RATES,
    ),
}

if __name__ == "__main__":
    main(PLAYERS, "no such module in fluke.algorithms")
