"""NVFlare's aggregation, its server optimiser and the helpers that it gives to clients, in the order of its recipes."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportOptionalSubscript=false
import tempfile
from copy import deepcopy
from pathlib import Path

import torch
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.aggregators.weighted_aggregation_helper import WeightedAggregationHelper
from nvflare.app_common.app_constant import AlgorithmConstants
from nvflare.app_common.workflows.scaffold import scaffold_aggregate_fn
from nvflare.app_opt.pt.ditto import PTDittoHelper
from nvflare.app_opt.pt.fedopt import PTFedOptModelShareableGenerator
from nvflare.app_opt.pt.fedproxloss import PTFedProxLoss
from nvflare.app_opt.pt.scaffold import PTScaffoldHelper
from nvflare.edge.assessors.buff_device_manager import BuffDeviceManager
from nvflare.edge.assessors.buff_model_manager import BuffModelManager
from nvflare.edge.assessors.model_update import ModelUpdateAssessor
from nvflare.edge.mud import Device, ModelUpdate, StateUpdateReport
from shared import cohorts_of, main, start_of
from shared_torch import Regression, loss_of, rows_of

HALF = "the parts that the recipes call, without a job"


def local(vector, number, x, proximal=None, scaffold=None, c=None):
    """Return a client's change of x, and that of its variate."""
    p, model = vector["parameters"], Regression(x.tolist())
    before, loss = deepcopy(model), loss_of(vector["problem"]["mu"])
    features, targets = rows_of(vector, number)
    optimizer = torch.optim.SGD(model.parameters(), p["lr"])
    if scaffold is not None:
        scaffold.init(model) if scaffold.c_global is None else scaffold._prepare_model(model)
        scaffold.load_global_controls({"x": c})
        controls = scaffold.get_params()
    for _ in range(p["local_steps"]):
        optimizer.zero_grad()
        total = loss(model(features), targets)
        if proximal is not None:
            total = total + proximal(model, before)
        total.backward()
        optimizer.step()
        if scaffold is not None:
            scaffold.model_update(model, p["lr"], *controls)
    if scaffold is not None:
        scaffold.terms_update(
            model=model, curr_lr=p["lr"], c_global_para=controls[0], c_local_para=controls[1], model_global=before
        )
    change = {"x": (model.x - before.x).detach()}
    return change, scaffold.get_delta_controls() if scaffold is not None else None


def mean_of(changes, weights):
    """Return the weighted mean."""
    helper = WeightedAggregationHelper()
    for number, (change, weight) in enumerate(zip(changes, weights, strict=True)):
        helper.add(change, weight, f"site-{number}", 0)
    return helper.get_result()


def weights_of(vector, cohort, rows):
    """Return the numbers of rows of a cohort, or ones."""
    return [float(len(vector["problem"]["clients"][number]["targets"])) if rows else 1.0 for number in cohort]


def averaging(rows=True, proximal=False, optimiser=None):
    """Return what plays a vector with the aggregation, and with `optimiser`, which makes the server's."""

    def play(vector):
        p, x, rounds = vector["parameters"], torch.tensor(start_of(vector)), []
        if optimiser is not None:
            server = PTFedOptModelShareableGenerator(source_model=Regression(x.tolist()), device="cpu")
            server.model = server.source_model
            server.optimizer = optimiser(server.model.parameters(), p)
        for cohort in cohorts_of(vector):
            term = PTFedProxLoss(p["mu"]) if proximal else None
            changes = [local(vector, number, x, term)[0] for number in cohort]
            replies = [{"change": change["x"].tolist()} for change in changes]
            mean = mean_of(changes, weights_of(vector, cohort, rows))
            x = x + mean["x"] if optimiser is None else server.server_update(mean)[0]["x"].clone()
            rounds.append({"exchanges": [{"replies": replies}], "server": {"x": x.tolist()}})
        return {"rounds": rounds, "note": HALF}

    return play


def scaffold(vector):
    """Play a vector with SCAFFOLD, whose controller has no step size of the server."""
    x, c, rounds = torch.tensor(start_of(vector)), torch.zeros(3), []
    helpers = [PTScaffoldHelper() for _ in vector["problem"]["clients"]]
    for cohort in cohorts_of(vector):
        results, replies = [], []
        for number in cohort:
            change, delta = local(vector, number, x, scaffold=helpers[number], c=c)
            meta = {AlgorithmConstants.SCAFFOLD_CTRL_DIFF: delta, "client_name": f"site-{number}"}
            results.append(FLModel(params=change, params_type=ParamsType.DIFF, meta=meta, current_round=0))
            replies.append({"change": change["x"].tolist(), "change_of_c_i": torch.as_tensor(delta["x"]).tolist()})
        total = scaffold_aggregate_fn(results)
        # The controller has no step size of the server.
        x, c = x + total.params["x"], c + torch.as_tensor(total.meta[AlgorithmConstants.SCAFFOLD_CTRL_DIFF]["x"])
        rounds.append({"exchanges": [{"replies": replies}], "server": {"x": x.tolist(), "c": c.tolist()}})
    return {"rounds": rounds, "note": HALF}


class Loss(torch.nn.modules.loss._Loss):
    """The problem's loss, of the class that the helper asks for."""

    def __init__(self, vector):
        super().__init__()
        self.forward = loss_of(vector["problem"]["mu"])


class Own(PTDittoHelper):
    """A client's own model; the loop over its steps is the user's, and has the helper's two losses."""

    def __init__(self, vector, folder):
        p, model = vector["parameters"], Regression(start_of(vector).tolist())
        optimizer = torch.optim.SGD(model.parameters(), p["own_lr"])
        folder.mkdir()
        super().__init__(Loss(vector), model, optimizer, torch.device("cpu"), str(folder), p["lam"], p["own_steps"])

    def local_train(self, train_loader, model_global, abort_signal=None, writer=None):
        features, targets = train_loader
        for _ in range(self.model_epochs):
            self.optimizer.zero_grad()
            (self.criterion(self.model(features), targets) + self.prox_criterion(self.model, model_global)).backward()
            self.optimizer.step()


def ditto(vector):
    """Play a vector with the helper of Ditto."""
    x, rounds = torch.tensor(start_of(vector)), []
    with tempfile.TemporaryDirectory() as folder:
        own = [Own(vector, Path(folder) / str(number)) for number in range(len(vector["problem"]["clients"]))]
        for cohort in cohorts_of(vector):
            sent = Regression(x.tolist())
            for number in cohort:
                own[number].load_model(sent.state_dict())
                own[number].local_train(rows_of(vector, number), sent)
                own[number].save_model()
            changes = [local(vector, number, x)[0] for number in cohort]
            replies = [{"change": change["x"].tolist()} for change in changes]
            x = x + mean_of(changes, weights_of(vector, cohort, rows=True))["x"]
            states = [{"v_i": one.model.x.tolist()} for one in own]
            rounds.append({"exchanges": [{"replies": replies}], "server": {"x": x.tolist()}, "clients": states})
    return {"rounds": rounds, "note": HALF}


class InTurn(BuffDeviceManager):
    """Selects clients in the order in which a vector asks them."""

    def fill_selection(self, current_model_version, fl_ctx):
        for _ in range(self.device_selection_size - len(self.current_selection)):
            self.current_selection[next(self.order)] = current_model_version
        self.current_selection_version += 1


def fedbuff(vector):
    """Play a vector with FedBuff's assessor and managers, two clients being at work at a time."""
    p, context, sent, rounds = vector["parameters"], FLContext(), {}, []
    names = [str(number) for cohort in cohorts_of(vector) for number in cohort] + ["nobody", "nobody else"]
    devices, models = InTurn(2), BuffModelManager(2, global_lr=p["server_lr"], staleness_weight=p["power"] > 0)
    devices.order, known = iter(names), {name: Device(name, "site", 1.0) for name in names}
    assessor = ModelUpdateAssessor("persistor", "models", "devices", len(names))
    assessor.model_manager, assessor.device_manager = models, devices
    models.initialize_model(DXO(DataKind.WEIGHTS, data={"x": start_of(vector)}), context)

    def tell(updates):
        report = StateUpdateReport(models.current_model_version, devices.current_selection_version, updates, known)
        assessor.process_child_update(report.to_shareable(), context)
        x = torch.as_tensor(models.current_model.data["x"])
        for name in devices.current_selection:
            sent.setdefault(name, x)
        return x.tolist()

    tell(None)
    for cohort in cohorts_of(vector):
        for number in cohort:
            name = str(number)
            change, _ = local(vector, number, sent.pop(name))
            update = DXO(DataKind.WEIGHT_DIFF, data={"dict": {"x": change["x"].numpy()}, "count": 1}).to_shareable()
            version = devices.current_selection[name]
            x = tell({version: ModelUpdate(version, update, {name: 1.0})})
        rounds.append({"server": {"x": x}})
    return {"rounds": rounds, "note": HALF}


PLAYERS = {
    "fedavg": averaging(),
    "fedprox": averaging(rows=False, proximal=True),
    "fedavgm": averaging(optimiser=lambda x, p: torch.optim.SGD(x, p["server_lr"], momentum=p["beta"])),
    "fedadam": averaging(
        rows=False, optimiser=lambda x, p: torch.optim.Adam(x, p["server_lr"], (p["beta1"], p["beta2"]), p["tau"])
    ),
    "scaffold-2-rate-1": scaffold,
    "ditto": ditto,
    "fedbuff": fedbuff,
    "fedbuff-staleness": fedbuff,
}

if __name__ == "__main__":
    main(PLAYERS, "no such class in nvflare.app_opt.pt, nor in nvflare.edge")
