"""Flower's client app, which the workers of the simulation import; each worker reads the rows once."""

import os
from functools import cache

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.peers import in_torch
from benchmarks.peers.serve import Workload

VARIABLE = "PEERS_WORKLOAD"
"""Environment variable: the file of the workload."""

app = ClientApp()


@cache
def workload():
    w = Workload.read(os.environ[VARIABLE])
    return w, in_torch.rows_of(w), in_torch.model_of(w)


@app.train()
def train(message: Message, context: Context):
    w, clients, model = workload()
    rows = clients[context.node_config["partition-id"]]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    in_torch.train(model, w, in_torch.Batches(rows, w.batch))
    metrics = MetricRecord({"num-examples": len(rows[0])})
    return Message(content=RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)
