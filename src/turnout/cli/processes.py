"""A command that several processes play together: it starts them on this machine, or finds them on a cluster."""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress

from turnout.cli import tell
from turnout.core.errors import UserError
from turnout.io.ports import free_port

PEERS = "TURNOUT_PEERS"
"""Environment variable of a process that another one has started: the address of the first, its number, how many there are."""

CLUSTERS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "JOB_COMPLETION_INDEX")
"""Environment variables by which Slurm, Open MPI and Kubernetes tell a process that it is one of several."""

HEARTBEAT = 10
"""Seconds after which a process that is silent counts as dead, and all others end."""

LOST = 75
"""Exit code of a process that has lost another one."""

HINT = "`turnout resume DIR --processes N` continues from the last checkpoint"

GRACE = 10
"""Seconds that the first process has to say what is wrong."""


def join(processes: int, devices: int) -> None:
    """Let this process be one of several, or start them and end with their exit code; its cores become devices.

    Args:
        processes: How many.
        devices: Devices of the mesh, which the processes share; 1 for one in each.
    """
    devices = max(devices, processes)
    if devices % processes:
        raise UserError(f"[run] mesh = {devices} is no multiple of --processes {processes}: change one of them")
    known = os.environ.get(PEERS)
    if processes > 1 and known is None and not any(name in os.environ for name in CLUSTERS):
        sys.exit(_start(processes))
    if devices == 1:
        return
    # Slow to import.
    import jax

    # Where JAX computes already, it has the devices that it has.
    with suppress(RuntimeError):
        jax.config.update("jax_num_cpu_devices", devices // processes)
    if processes == 1:
        return
    if known is None:
        jax.distributed.initialize(heartbeat_timeout_seconds=HEARTBEAT)
        return
    address, number, count = known.split()
    jax.distributed.initialize(address, int(count), int(number), heartbeat_timeout_seconds=HEARTBEAT)


def _start(processes: int) -> int:
    """Start this command so many times, wait, and return the exit code; the first that fails ends all others."""
    address = f"127.0.0.1:{free_port()}"
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "turnout", *sys.argv[1:]],
            env=os.environ | {PEERS: f"{address} {number} {processes}"},
            # What a user reads is said by the first one.
            stdout=None if number == 0 else subprocess.DEVNULL,
            stderr=None if number == 0 else subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    # Ctrl-C reaches all of them, and they end after the round at hand.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lost = ""
    try:
        with ThreadPoolExecutor(processes) as pool:
            ends = {pool.submit(process.communicate): number for number, process in enumerate(started)}
            for end in as_completed(ends):
                code, errors = started[ends[end]].returncode, end.result()[1] or ""
                # Who has lost another process is not the one that failed.
                if code not in (0, LOST):
                    return _failed(started, ends[end], code, errors)
                lost = errors if code == LOST and errors else lost
    finally:
        for process in started:
            process.kill()
    if lost:
        print(lost.strip().splitlines()[-1], file=sys.stderr)
    return max(process.returncode for process in started)


def _failed(started: list[subprocess.Popen], number: int, code: int, errors: str) -> int:
    """End all processes, since one has failed, say why, and return the exit code."""
    if code > 0 and number:
        # A mistake of the user is found by all, and the first one says it.
        with suppress(subprocess.TimeoutExpired):
            if started[0].wait(GRACE) not in (0, LOST):
                return started[0].returncode
        print(*errors.strip().splitlines()[-1:], file=sys.stderr)
    for process in started:
        process.kill()
    if code > 0:
        return code
    print(f"turnout: process {number + 1} of {len(started)} was ended by signal {-code}; {HINT}", file=sys.stderr)
    return 1


@contextmanager
def ending_together() -> Iterator[None]:
    """End this process at once where it fails and is one of several, which would wait for it."""
    try:
        yield
    except BaseException as error:
        import jax

        if jax.process_count() == 1:
            raise
        code = _told(error)
        sys.stderr.flush()
        os._exit(code)


def _told(error: BaseException) -> int:
    """Say why this process ends, and return its exit code."""
    import jax

    if isinstance(error, jax.errors.JaxRuntimeError):
        # What the first of the processes of a machine would say, the one that has started it knows better.
        if PEERS not in os.environ or jax.process_index():
            why = str(error).splitlines()[0]
            print(f"turnout: another process of the run has ended, or a device has failed ({why}); {HINT}", file=sys.stderr)
        return LOST
    if isinstance(error, UserError | KeyboardInterrupt):
        return tell(error)
    traceback.print_exception(error)
    return 1
