"""Reads of many short pieces of a file at once. It is not mapped, so that what was read takes no memory of the process."""

import ctypes
from functools import cache

import numpy as np
from jaxtyping import Int

from turnout.core.numba_functions import compiled


def read_pieces(source: int | np.ndarray, starts: Int[np.ndarray, " m"], sizes: Int[np.ndarray, " m"], into: np.ndarray) -> int:
    """Copy piece k of a file to the first bytes of `into[k]`, zero its other bytes, and return the first k that failed, or -1.

    Args:
        source: The descriptor of the open file, or its content as bytes in memory.
        starts: Where each piece begins, in bytes.
        sizes: Bytes of each.
        into: An array [m, ...] in one block of memory.
    """
    whole = into.reshape(len(into), -1).view(np.uint8)
    pieces = starts.astype(np.int64), sizes.astype(np.int64), whole
    if isinstance(source, int):
        return int(_from_file()(source, *pieces, whole.ctypes.data))
    _from_memory()(source, *pieces)
    return -1


@cache
def _from_file():
    pread = ctypes.CDLL(None).pread
    pread.argtypes, pread.restype = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64), ctypes.c_ssize_t

    def read(descriptor, starts, sizes, whole, address):
        stride = whole.shape[1]
        for k in range(starts.size):
            done = 0
            while done < sizes[k]:
                got = pread(descriptor, address + k * stride + done, sizes[k] - done, starts[k] + done)
                if got <= 0:
                    return k
                done += got
            whole[k, sizes[k] :] = 0
        return -1

    # Other threads go on meanwhile.
    return compiled(read, nogil=True)


@cache
def _from_memory():
    def read(content, starts, sizes, whole):
        for k in range(starts.size):
            whole[k, : sizes[k]] = content[starts[k] : starts[k] + sizes[k]]
            whole[k, sizes[k] :] = 0

    return compiled(read, nogil=True)
