"""Cohort solvers: the server minimises a proximal subproblem by exchanges with one cohort."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
