"""Programs as jobs of submitit: the same runs, jobs that are begun again or die, and what is refused."""

import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

import turnout as t
from tests.helpers.commands import config, turnout, wait_for
from turnout.core.errors import UserError

pytest.importorskip("submitit", reason="submitit is not installed: pip install 'turnout[cluster]'")


def tables(rounds: int = 20, **more) -> dict:
    """A study of two programs, of which the second is the one of the setting that the first has chosen."""
    return {
        "seeds": "5-6",
        "run": {"rounds": rounds, "every": max(1, rounds // 20), "metrics": ["gradient"]},
        "problems": {"made": {"problem": {"kind": "logistic", "data": "breast_cancer", "mu": 0.1, "normalize": "columns"},
                              "split": {"kind": "iid", "clients": 6}}},
        "methods": {"fedavg": {"sampler": {"kind": "nice", "size": 3}, "algorithm": {"kind": "fedavg", "lr": 0.1},
                               "grid": {"algorithm.lr": [0.1, 0.2]}}},
        "goals": {"least": {"metric": "gradient"}},
        "prices": {"exchanges": {"kind": "exchanges"}},
        **more,
    }  # fmt: skip


TUNED = {"tuning": {"seeds": 2, "goal": "least", "price": "exchanges"}}


def slurm_is_there() -> bool:
    """Whether a cluster takes jobs and tells what became of them."""
    commands = ("sbatch", "sinfo"), ("sacct", "squeue")
    return all(shutil.which(name) for pair in commands for name in pair) and not any(
        subprocess.run([pair[1]], capture_output=True).returncode for pair in commands
    )


EXECUTORS = [
    "local",
    pytest.param("slurm", marks=pytest.mark.skipif(not slurm_is_there(), reason="there is no Slurm cluster: sinfo fails")),
]


only_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells which signals a process catches")


@pytest.mark.everything
@pytest.mark.parametrize("executor", EXECUTORS)
def test_jobs_leave_the_runs_of_a_study_without_them(tmp_path, executor):
    alone = t.study(tables(**TUNED), tmp_path / "alone")
    as_jobs = t.study(tables(**TUNED), tmp_path / "jobs", workers=2, executor=executor, job={"timeout_min": 5})
    assert not as_jobs.broken and as_jobs.runs.equals(alone.runs)
    logs = {path.name.split("_")[0] for path in (tmp_path / "jobs" / "jobs").glob("*_log.out")}
    assert len(logs) >= 2
    before = sorted((tmp_path / "jobs" / "jobs").iterdir())
    again = t.study(tables(**TUNED), tmp_path / "jobs", executor=executor)
    assert again.runs.equals(alone.runs) and sorted((tmp_path / "jobs" / "jobs").iterdir()) == before


def processes(folder: Path) -> list[int]:
    """The processes that play jobs whose files are in `folder`."""
    found = subprocess.run(["pgrep", "-f", f"submitit.core._submit {folder}"], capture_output=True, text=True).stdout
    return [int(number) for number in found.split()]


def begun(folder: Path) -> bool:
    """Whether a process plays its program: from then on it catches the signal of preemption."""

    def caught(process: int) -> int:
        status = Path(f"/proc/{process}/status")
        return int(status.read_text().split("SigCgt:")[1].split()[0], 16) if status.exists() else 0

    return any(caught(process) >> (signal.SIGUSR2 - 1) & 1 for process in processes(folder))


def while_it_plays(folder: Path, number: signal.Signals) -> threading.Thread:
    """Send a signal to the processes of jobs once they have begun; the thread that does it."""

    def send():
        wait_for(lambda: begun(folder))
        for process in processes(folder):
            os.kill(process, number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def played_under(folder: Path, number: signal.Signals) -> t.Study:
    """A study whose jobs get a signal as they play."""
    thread = while_it_plays(folder / "jobs", number)
    played = t.study(tables(rounds=20_000), folder, executor="local")
    thread.join()
    return played


@pytest.mark.slow
@only_linux
def test_a_job_that_is_preempted_is_begun_again(tmp_path):
    played = played_under(tmp_path, signal.SIGUSR2)
    assert not played.broken and played.runs["round"].max() == 20_000
    assert any("Requeued" in path.read_text() for path in (tmp_path / "jobs").glob("*_log.*"))


@pytest.mark.slow
@only_linux
def test_a_job_that_dies_breaks_its_runs(tmp_path):
    played = played_under(tmp_path, signal.SIGKILL)
    assert played.runs.is_empty() and {run.seed for run, _ in played.broken} == {5, 6}
    assert all(re.search("its job [0-9]+ died .*_log.err", why) for _, why in played.broken)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"executor": "pbs"}, "unknown executor 'pbs': known are 'slurm' and 'local'"),
        ({"job": {"timeout_min": 3}}, "give executor='slurm' or 'local' too"),
        ({"executor": "local", "job": {"minutes": 3}}, "jobs of 'local' cannot be submitted: .*minutes"),
        ({"executor": "local", "job": {"timeout_min": "long"}}, "jobs of 'local' cannot be submitted"),
        pytest.param({"executor": "slurm"}, "cannot be submitted: Could not detect|the cluster refuses the jobs: ",
                     marks=pytest.mark.skipif(slurm_is_there(), reason="there is a Slurm cluster")),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(tmp_path, options, sentence):
    with pytest.raises(UserError, match=sentence):
        t.study(tables(), tmp_path, **options)


def test_a_parameter_is_a_name_and_a_value(tmp_path):
    code, _, wrong = turnout("study", config(tmp_path), "--out", tmp_path / "out", "--executor", "local", "--job", "timeout_min")
    assert code == 2 and "write a name and a value, such as timeout_min=30" in wrong
