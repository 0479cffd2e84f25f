"""Arrays in narrower types, which hold the same numbers or are refused."""

import numpy as np

from turnout.core.errors import UserError


def narrowed(array: np.ndarray, dtype: np.dtype | type, what: str) -> np.ndarray:
    """Return numbers in another type, floating-point ones rounded to it; `UserError` if one is beyond its range.

    Args:
        array: Numbers.
        dtype: The type, of whole or floating-point numbers.
        what: What the numbers are, for the error message.
    """
    dtype = np.dtype(dtype)
    if np.can_cast(array.dtype, dtype):
        return array.astype(dtype, copy=False)
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    with np.errstate(over="ignore"):
        beyond = ((array < limits.min) | (array > limits.max)) & np.isfinite(array)
    if beyond.any():
        raise UserError(f"{what} holds {array[beyond][0]}, which is beyond the range of {dtype}: scale it, or number it anew")
    return array.astype(dtype)
