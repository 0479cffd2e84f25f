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
    pieces = starts.astype(np.int64, copy=False), sizes.astype(np.int64, copy=False), _bytes(into)
    return _from_file()(source, *pieces) if isinstance(source, int) else _from_memory()(source, *pieces)


def read_rows(
    source: int | np.ndarray, origin: Int[np.ndarray, " b"], first: Int[np.ndarray, " b"], offsets: Int[np.ndarray, " bounds"],
    width: int, ids: Int[np.ndarray, " m"], into: np.ndarray,
) -> int:  # fmt: skip
    """Copy the rows of clients from a file that has them in batches, as `read_pieces` does, without other work in Python.

    Args:
        source: The descriptor of the open file, or its content as bytes in memory.
        origin: Where row 0 would be if all rows were in one block, for each batch.
        first: The first client of each batch.
        offsets: Where each client's rows begin among all, and where they end.
        width: Bytes of a row.
        ids: Ids of the clients.
        into: An array [m, ...] in one block of memory.
    """
    read = _from_file() if isinstance(source, int) else _from_memory()
    return _located(read)(source, origin, first, offsets, width, ids, _bytes(into))


def _bytes(array: np.ndarray) -> np.ndarray:
    return array.reshape(len(array), -1).view(np.uint8)


@cache
def _located(read):
    def located(source, origin, first, offsets, width, ids, whole):
        starts, sizes = np.empty(ids.size, np.int64), np.empty(ids.size, np.int64)
        for k in range(ids.size):
            i = ids[k]
            batch = np.searchsorted(first, i, side="right") - 1
            starts[k] = origin[batch] + offsets[i] * width
            sizes[k] = (offsets[i + 1] - offsets[i]) * width
        return read(source, starts, sizes, whole)

    # Other threads go on meanwhile.
    return compiled(located, nogil=True)


@cache
def _from_file():
    pread = ctypes.CDLL(None).pread
    pread.argtypes, pread.restype = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64), ctypes.c_ssize_t

    def read(descriptor, starts, sizes, whole):
        for k in range(starts.size):
            done = 0
            while done < sizes[k]:
                got = pread(descriptor, whole[k, done:].ctypes.data, sizes[k] - done, starts[k] + done)
                if got <= 0:
                    return k
                done += got
            whole[k, sizes[k] :] = 0
        return -1

    return compiled(read, nogil=True)


@cache
def _from_memory():
    def read(content, starts, sizes, whole):
        for k in range(starts.size):
            whole[k, : sizes[k]] = content[starts[k] : starts[k] + sizes[k]]
            whole[k, sizes[k] :] = 0
        return -1

    return compiled(read, nogil=True)
