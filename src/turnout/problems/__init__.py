"""Problems to minimise, f(x) = sum_i lambda_i f_i(x)."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
