"""pfl-research's algorithms of `pfl.algorithm`, run by their own `run` with a `SimulatedBackend`, in its single precision."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false
import numpy as np
import shared_torch
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints, WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.algorithm.fedprox import FedProx, FedProxParams
from pfl.algorithm.scaffold import SCAFFOLD, SCAFFOLDParams
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.user_state import InMemoryUserStateStorage
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from shared import cohorts_of, main, start_of

torch.set_default_dtype(torch.float32)


class Model(shared_torch.Regression):
    """The regression as pfl has its models."""

    def __init__(self, vector):
        super().__init__(start_of(vector).astype("float32"))
        self.of = shared_torch.loss_of(vector["problem"]["mu"])

    def loss(self, features, targets, eval=False):
        return self.of(self(features), targets)

    def metrics(self, features, targets, eval=False):
        return {"loss": Weighted(float(self.loss(features, targets)), 1)}


class Watch(TrainingProcessCallback):
    """Notes x after each round."""

    def __init__(self):
        self.states = []

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        self.states.append(model.pytorch_model.x.detach().double().tolist())
        return False, Metrics()


def player(algorithm=FederatedAveraging, params=NNAlgorithmParams, further=None, weighting=WeightByDatapoints, optimizer=None):
    """Return what plays a vector; `further` makes further parameters of its own, and `optimizer` the server's."""

    def play(vector):
        p, rounds = vector["parameters"], len(vector["rounds"])
        order = iter([number for cohort in cohorts_of(vector) for number in cohort] * 2)

        def rows(user):
            own = vector["problem"]["clients"][user]
            raw = [np.array(own["features"], "float32"), np.array(own["targets"], "float32")]
            return Dataset(raw_data=raw, user_id=str(user))

        module, watch = Model(vector), Watch()
        central = optimizer(module, p) if optimizer else torch.optim.SGD(module.parameters(), p.get("server_lr", 1.0))
        model = PyTorchModel(module, torch.optim.SGD, central)
        backend = SimulatedBackend(FederatedDataset(rows, lambda: next(order)), None, postprocessors=[weighting()])
        options = {"central_num_iterations": rounds, "evaluation_frequency": rounds, "train_cohort_size": 2, "val_cohort_size": 0}
        chosen = params(**options, **(further(p) if further else {}))
        train = NNTrainHyperParams(local_num_epochs=p["local_steps"], local_learning_rate=p["lr"], local_batch_size=None)
        algorithm().run(chosen, backend, model, train, callbacks=[watch], send_metrics_to_platform=False)
        return {"rounds": [{"server": {"x": x}} for x in watch.states], "precision": "single"}

    return play


def scaffold(option):
    """Return what plays a vector with SCAFFOLD."""

    def further(p):
        return {
            "population": 4,
            "use_gradient_as_control_variate": option == "I",
            "user_state_storage": InMemoryUserStateStorage(),
        }

    return player(SCAFFOLD, SCAFFOLDParams, further, WeightByUser)


def adam(module, p):
    """Return Adam for the server."""
    return torch.optim.Adam(module.parameters(), p["server_lr"], (p["beta1"], p["beta2"]), p["tau"])


def momentum(module, p):
    """Return gradient steps with momentum for the server."""
    return torch.optim.SGD(module.parameters(), p["server_lr"], momentum=p["beta"])


PLAYERS = {
    "fedavg": player(),
    "fedprox": player(FedProx, FedProxParams, lambda p: {"mu": p["mu"]}, WeightByUser),
    "scaffold-1": scaffold("I"),
    "scaffold-2": scaffold("II"),
    "fedadam": player(weighting=WeightByUser, optimizer=adam),
    "fedavgm": player(optimizer=momentum),
}

if __name__ == "__main__":
    main(PLAYERS, "no such module in pfl.algorithm")
