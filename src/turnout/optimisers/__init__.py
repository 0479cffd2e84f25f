"""Optimisers of servers, clients and cohort solvers. `turnout.optimisers.base` describes the protocol."""

from turnout.optimisers.adaptive import FedAdagrad as FedAdagrad
from turnout.optimisers.adaptive import FedAdam as FedAdam
from turnout.optimisers.adaptive import FedYogi as FedYogi
from turnout.optimisers.apollo import Apollo as Apollo
from turnout.optimisers.base import Optimiser as Optimiser
from turnout.optimisers.oasis import Oasis as Oasis
from turnout.optimisers.standard import Adagrad as Adagrad
from turnout.optimisers.standard import Adam as Adam
from turnout.optimisers.standard import AdamW as AdamW
from turnout.optimisers.standard import Muon as Muon
from turnout.optimisers.standard import Sgd as Sgd
