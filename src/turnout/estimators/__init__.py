"""Estimators of grad f along the iterates of a server, one file per family."""

from turnout.estimators.base import Estimator as Estimator
from turnout.estimators.exact import Exact as Exact
from turnout.estimators.recursive import RgSaga as RgSaga
from turnout.estimators.recursive import RgSvrg as RgSvrg
from turnout.estimators.recursive import ZeroSarah as ZeroSarah
from turnout.estimators.saga import Sag as Sag
from turnout.estimators.saga import Saga as Saga
from turnout.estimators.sarah import Sarah as Sarah
from turnout.estimators.sarah import Storm as Storm
from turnout.estimators.svrg import Svrg as Svrg
