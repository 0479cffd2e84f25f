"""Federated algorithms, one file each."""

from turnout.algorithms.accfeddcd import AccFedDcd as AccFedDcd
from turnout.algorithms.celgd import CeLgd as CeLgd
from turnout.algorithms.fedavg import FedAvg as FedAvg
from turnout.algorithms.feddcd import FedDcd as FedDcd
from turnout.algorithms.feddyn import FedDyn as FedDyn
from turnout.algorithms.fedprox import FedProx as FedProx
from turnout.algorithms.fedred import FedRed as FedRed
from turnout.algorithms.fedvarp import FedVarp as FedVarp
from turnout.algorithms.gd import Gd as Gd
from turnout.algorithms.icgm import Icgm as Icgm
from turnout.algorithms.mbgd import MbGd as MbGd
from turnout.algorithms.mblocalgd import MbLocalGd as MbLocalGd
from turnout.algorithms.mimemvr import MimeMvr as MimeMvr
from turnout.algorithms.pointsaga import PointSaga as PointSaga
from turnout.algorithms.proxavg import FedAvgSppm as FedAvgSppm
from turnout.algorithms.proxavg import FedProxSppm as FedProxSppm
from turnout.algorithms.saber import SaberFull as SaberFull
from turnout.algorithms.saber import SaberPartial as SaberPartial
from turnout.algorithms.scaffnew import Scaffnew as Scaffnew
from turnout.algorithms.scaffold import Scaffold as Scaffold
from turnout.algorithms.scaffoldsag import ScaffoldSag as ScaffoldSag
from turnout.algorithms.sppm import Sppm as Sppm
