"""Rounds of local training, which algorithms play with one cohort after another, and cohort solvers with one and the same."""

from turnout.local_training.base import LocalTraining as LocalTraining
from turnout.local_training.base import Meeting as Meeting
from turnout.local_training.base import Objective as Objective
from turnout.local_training.fedlamb import FedLamb as FedLamb
from turnout.local_training.fedopt import FedOpt as FedOpt
from turnout.local_training.fedspeed import FedSpeed as FedSpeed
from turnout.local_training.mime import Mime as Mime
from turnout.local_training.mime import MimeLite as MimeLite
from turnout.local_training.work import LocalWork as LocalWork
