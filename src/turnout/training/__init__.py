"""Rounds of local training, which algorithms play with one cohort after another, and cohort solvers with one and the same."""

from turnout.training.base import LocalTraining as LocalTraining
from turnout.training.base import Meeting as Meeting
from turnout.training.base import Objective as Objective
from turnout.training.fedlamb import FedLamb as FedLamb
from turnout.training.fedopt import FedOpt as FedOpt
from turnout.training.fedspeed import FedSpeed as FedSpeed
from turnout.training.mime import Mime as Mime
from turnout.training.mime import MimeLite as MimeLite
from turnout.training.work import LocalWork as LocalWork
