"""Arrays in narrower types, which hold the same numbers or are refused."""

import numpy as np

from turnout.core.errors import UserError


def narrowed(array: np.ndarray, dtype: np.dtype | type, what: str) -> np.ndarray:
    """Return numbers in another type; `UserError` if one is beyond its range.

    Args:
        array: Numbers, whole ones where the type is one of whole numbers.
        dtype: The type; floating-point numbers are rounded to it, and stay NaN or infinite.
        what: What the numbers are, for the error message.
    """
    dtype = np.dtype(dtype)
    if np.can_cast(array.dtype, dtype):
        return array.astype(dtype, copy=False)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            rounded = array.astype(dtype)
        # NaN is the largest and the smallest of numbers with NaN.
        if array.dtype.kind != "f" or np.isfinite([rounded.max(initial=0), rounded.min(initial=0)]).all():
            return rounded
        fits = np.isfinite(rounded) | ~np.isfinite(array)
        if fits.all():
            return rounded
    else:
        # The largest whole number itself may be none of the array's floating-point numbers.
        fits = (array >= np.iinfo(dtype).min) & (array < np.iinfo(dtype).max + 1)
    if not fits.all():
        raise UserError(f"{what} holds {array[~fits][0]}, which is beyond the range of {dtype}: scale it, or number it anew")
    return array.astype(dtype)
