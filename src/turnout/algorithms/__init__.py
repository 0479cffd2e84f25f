"""Federated algorithms, one file each."""

from turnout.algorithms.accfeddcd import AccFedDcd as AccFedDcd
from turnout.algorithms.fedavg import FedAvg as FedAvg
from turnout.algorithms.feddcd import FedDcd as FedDcd
from turnout.algorithms.fedprox import FedProx as FedProx
from turnout.algorithms.fedvarp import FedVarp as FedVarp
from turnout.algorithms.mbgd import MbGd as MbGd
from turnout.algorithms.mblocalgd import MbLocalGd as MbLocalGd
from turnout.algorithms.pointsaga import PointSaga as PointSaga
from turnout.algorithms.proxavg import FedAvgSppm as FedAvgSppm
from turnout.algorithms.proxavg import FedProxSppm as FedProxSppm
from turnout.algorithms.scaffold import Scaffold as Scaffold
from turnout.algorithms.sppm import Sppm as Sppm
