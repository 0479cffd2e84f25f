"""The cache folder: compiled programs and computed values from one process to the next; the least recently used go first."""

import logging
import os
import platform
import shutil
import time
import warnings
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

VARIABLE = "TURNOUT_CACHE"
"""Environment variable: the cache folder, or "off"."""

LIMIT = 2**30
"""Bytes that programs, and values, may take each."""

LEAST = 64 * 2**20
"""Bytes that have to be free on the disk."""

UNREADABLE = r"Error (reading|writing) persistent compilation cache entry"
"""How JAX's warnings about an entry begin that another process is still writing, or was killed in writing."""

_chosen: list[Path | None] = []
"""The folder that `set_cache` chose, if it was called."""


def set_cache(folder: str | Path | None) -> None:
    """Keep compiled programs and computed values in `folder`, or nowhere if None; results are the same.

    Default: $TURNOUT_CACHE, which is a folder or "off"; else $XDG_CACHE_HOME/turnout; else ~/.cache/turnout. Call it before the
    first run.

    Args:
        folder: The folder.

    Examples:
        >>> import turnout as t
        >>> t.set_cache("results/cache")  # doctest: +SKIP
    """
    _chosen[:] = [None if folder is None else Path(folder)]


def cache_folder() -> Path | None:
    """Return the cache folder; None where nothing is to be kept."""
    if _chosen:
        return _chosen[0]
    named = os.environ.get(VARIABLE)
    if named:
        return None if named == "off" else Path(named)
    # Where there is no home, nothing is kept.
    with suppress(RuntimeError):
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turnout"
    return None


@cache
def usable(folder: Path) -> bool:
    """Return whether files can be written to `folder`, which is made, after the least recently used ones of too many are gone.

    Where they cannot, that is told once.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(None, "no permission to write")
        evict(folder)
        if shutil.disk_usage(folder).free < LEAST:
            raise OSError(None, "the disk is full")
    except OSError as error:
        remedy = f"set {VARIABLE} to another folder, or to off"
        logging.getLogger("turnout").warning("turnout: nothing is kept in %s (%s): %s", folder, error.strerror, remedy)
        return False
    return True


def evict(folder: Path, limit: int = LIMIT) -> None:
    """Remove the least recently used files of `folder` until the others have at most `limit` bytes."""
    now, files, total = time.time(), [], 0
    for entry in os.scandir(folder):
        # Another process may evict too.
        with suppress(FileNotFoundError):
            if entry.is_file():
                state = entry.stat()
                # A clock that was wrong does not make a file recent for ever.
                files.append((min(max(state.st_atime, state.st_mtime), now), state.st_size, entry.path))
                total += state.st_size
    for _, size, path in sorted(files):
        if total <= limit:
            break
        with suppress(FileNotFoundError):
            os.unlink(path)
        total -= size


def write_cache(path: Path, content: bytes) -> None:
    """Write a cache file, also while other processes write it; best effort: errors are ignored.

    Args:
        path: Path of the file.
        content: The new content.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(OSError):
        try:
            temporary.write_bytes(content)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@cache
def keep_programs() -> None:
    """From now on, keep what JAX compiles in the cache folder, unless JAX was told where to keep it.

    A program of another machine, version of JAX or set of options is another entry.
    """
    # Slow to import, and not needed by processes that draw.
    import jax

    folder = cache_folder()
    if folder is None or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    folder = folder / f"programs-{machine()}"
    if not usable(folder):
        return
    warnings.filterwarnings("ignore", UNREADABLE)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_compilation_cache_dir", str(folder))


def machine() -> str:
    """Return a mark of this machine's processor: what is compiled for one may need instructions that another lacks."""
    known = platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        known += next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return blake2b(known.encode(), digest_size=4).hexdigest()
