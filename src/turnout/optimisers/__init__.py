"""Optimisers: how a gradient and what was kept of those before it become a step, of a server, a client or a cohort."""

from turnout.optimisers.adaptive import FedAdagrad as FedAdagrad
from turnout.optimisers.adaptive import FedAdam as FedAdam
from turnout.optimisers.adaptive import FedYogi as FedYogi
from turnout.optimisers.apollo import Apollo as Apollo
from turnout.optimisers.base import Optimiser as Optimiser
from turnout.optimisers.oasis import Oasis as Oasis
from turnout.optimisers.standard import Adagrad as Adagrad
from turnout.optimisers.standard import Adam as Adam
from turnout.optimisers.standard import Sgd as Sgd
