"""Flower's client app, which the workers of the simulation import; each worker reads the rows once."""

import os
from functools import cache

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from benchmarks.peers.in_torch import LOSS, Scores, rows_of
from benchmarks.peers.serve import Workload

VARIABLE = "PEERS_WORKLOAD"
"""Environment variable: the file of the workload."""

app = ClientApp()


@cache
def workload():
    w = Workload.read(os.environ[VARIABLE])
    return w, rows_of(w), Scores(w)


@app.train()
def train(message: Message, context: Context):
    w, clients, model = workload()
    rows, labels = clients[context.node_config["partition-id"]]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer, criterion = torch.optim.SGD(model.parameters(), lr=w.lr, weight_decay=w.mu), LOSS()
    for _ in range(w.epochs):
        optimizer.zero_grad()
        criterion(model(rows), labels).backward()
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(rows)})
    return Message(content=RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)
