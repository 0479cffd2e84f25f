"""Everything at the edge of a machine: places, disks, names, terminals, languages, threads, notebooks, Ctrl-C at every stage.

Forked and spawned processes have their tests in tests/core/test_forks.py, and stopped runs in tests/runs/test_resume.py.
"""

import asyncio
import locale
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

import turnout as t
from tests.helpers.commands import children, config, contents, on_a_terminal, start, turnout, wait_for, whole
from tests.helpers.studies import STUDY, tables
from turnout.data import load

TIMES = ("summary.json", "report.html")
"""Files that hold a duration or a command."""

COMMANDS = {
    "run": lambda file, out: ("run", file, "--out", out),
    "sweep": lambda file, out: ("sweep", file, "--set", "algorithm.lr=0.1,0.3", "--out", out),
    "study": lambda file, out: ("study", file.with_name("study.toml"), "--out", out),
    "theory": lambda file, out: ("theory", file, "--out", out),
    "pictures": lambda file, out: ("study", file.with_name("pictures.toml"), "--out", out),
}


def results(folder: Path) -> dict[str, bytes]:
    """The files of a run or a study that are the same each time."""
    return {name: content for name, content in contents(folder).items() if Path(name).name not in TIMES}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A configuration, beside which there are a study, and the same with pictures."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "study.toml").write_text(STUDY)
    (folder / "pictures.toml").write_text(f"pictures = true\n{STUDY}")
    return config(folder)


@pytest.fixture(scope="module")
def finished(files, tmp_path_factory) -> dict[str, Path]:
    """The folders of a run and of a study."""
    folder = tmp_path_factory.mktemp("finished")
    for name in ("run", "study"):
        assert turnout(*COMMANDS[name](files, folder / name))[0] == 0
    return {name: folder / name for name in ("run", "study")}


# Places that cannot be written, and disks that are full


@pytest.mark.parametrize("name", ["run", "sweep", "study", "theory"])
@pytest.mark.parametrize("place", ["/proc/nowhere/out", "file/out"])
def test_a_place_where_no_folder_can_be(files, tmp_path, name, place):
    (tmp_path / "file").touch()
    code, said, wrong = turnout(*COMMANDS[name](files, tmp_path / place))
    assert (code, said, wrong.count("\n")) == (2, "", 1)
    assert place.split("/")[-2] in wrong and wrong.endswith("choose another --out\n")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_study_that_cannot_write_stops_and_breaks_no_run(files, tmp_path, finished, workers):
    out, command = tmp_path / "out", ("study", files.with_name("study.toml"), "--workers", workers, "--out", tmp_path / "out")
    out.mkdir()
    (out / "ends").touch()
    code, _, wrong = turnout(*command)
    assert (code, wrong.count("\n")) == (2, 1) and f"{out / 'ends'}: cannot be created" in wrong
    (out / "ends").unlink()
    assert turnout(*command)[0] == 0 and results(out) == results(finished["study"])


@pytest.fixture
def disk(tmp_path):
    """Return the output of commands of bash that have a small disk in the folder `disk`, the one of `turnout` as `$turnout`."""
    (tmp_path / "disk").mkdir()
    mount = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", tmp_path / "disk"]
    if not shutil.which("unshare") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this system lets users have no file systems of their own")

    def run(commands: str, size: int) -> tuple[str, str]:
        program = f"set -e; mount -t tmpfs -o size={size}k none disk; turnout='{sys.executable} -m turnout'; {commands}"
        done = subprocess.run(
            ["unshare", "-rm", "bash", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        return done.stdout, done.stderr

    return run


@pytest.mark.tiers(quick=[], longer=["run-28"], slow=["study-100"])
@pytest.mark.parametrize(("name", "size"), [("run", 12), ("run", 28), ("run", 40), ("study", 24), ("study", 100)])
def test_a_full_disk_loses_nothing(files, tmp_path, disk, finished, name, size):
    command = " ".join(map(str, COMMANDS[name](files, "disk/out")))
    again = "resume disk/out" if name == "run" else command
    more = "mount -o remount,size=40m disk"
    _, wrong = disk(f"$turnout {command} || test $? = 2; {more}; $turnout {again}; cp -r disk/out kept", size)
    assert re.fullmatch(
        r"turnout: disk/out/\S+: cannot be written \(No space left on device\): free some space, then .*\n", wrong
    )
    assert results(tmp_path / "kept") == results(finished[name])
    assert (tmp_path / "kept" / "report.html").exists()


@pytest.mark.slow
def test_a_folder_that_may_only_be_read(files, disk):
    said, wrong = disk(f"mount -o remount,ro disk; $turnout run {files} --out disk/out || echo $?", 40)
    assert said == "2\n" and wrong == "turnout: disk/out: cannot be created (Read-only file system): choose another --out\n"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_an_output_that_is_full(files):
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "turnout", "describe", files], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (process.returncode, process.stderr.count("\n")) == (2, 1) and "the output: cannot be written" in process.stderr


# Names of files


@pytest.mark.slow
def test_paths_with_spaces_and_letters_of_other_alphabets(tmp_path, finished, files):
    folder = tmp_path / "ein Ordner mit Käse" / "данные 数据 🎲"
    folder.mkdir(parents=True)
    file = shutil.copy(files, folder / "été №1.toml")
    code, said, wrong = turnout("run", file, "--out", folder / "ответ 1")
    assert (code, wrong) == (0, "") and "été №1" in said and str(folder / "ответ 1") in said
    mine, other = (pl.read_parquet(out / "trace.parquet") for out in (folder / "ответ 1", finished["run"]))
    assert mine.equals(other)
    assert turnout("resume", folder / "ответ 1")[1].startswith(str(folder))
    code, _, wrong = turnout("compare", file, files, "--out", folder / "両方")
    assert (code, wrong) == (0, "") and "été №1" in (folder / "両方" / "report.html").read_text(encoding="utf-8")


def test_data_in_such_a_place(tmp_path):
    place = tmp_path / "mes données ß"
    place.mkdir()
    frame = pl.DataFrame(
        {"größe m": [1.5, 2.5, -1.0, 0.5], "stadt": ["Köln", "東京", "Köln", "東京"], "y": ["ja", "nein", "ja", "nein"]}
    )
    frame.write_csv(place / "tabelle 表.csv")
    rows = load(place / "tabelle 表.csv", label="y")
    assert [*rows.classes] == ["ja", "nein"] and {"größe m", "stadt=Köln", "stadt=東京"} == {*rows.columns}


# Terminals


@pytest.mark.longer
def test_forty_columns_cut_no_word(files, finished, monkeypatch):
    monkeypatch.setattr("turnout.cli.tables.console._width", 40)
    code, said, _ = turnout("describe", files)
    lines, words = said.splitlines(), {*re.findall(r"\w+", said)}
    assert code == 0 and max(map(len, lines)) <= 40 and "…" not in said
    assert {"exchanges", "clients", "selections", "message", "reply", "queries", "slowest", "random"} <= words
    code, said, _ = turnout(*COMMANDS["study"](files, finished["study"]))
    assert code == 0 and "…" not in said and {"FedAvg", "mbgd", "median", "cheapest"} <= {*re.findall(r"\w+", said)}


COLOUR = re.compile(r"\x1b\[(\d+;)*(3\d|4\d|9\d|10\d)[;m]")


@pytest.mark.slow
def test_colours_are_for_terminals_and_not_where_they_are_unwanted(files, tmp_path):
    shown = {}
    for name, variables in {"wanted": {}, "unwanted": {"NO_COLOR": "1"}, "dumb": {"TERM": "dumb"}}.items():
        code, shown[name] = on_a_terminal("run", "-h", stdout=True, variables=variables)
        assert code == 0 and "--out" in re.sub("\x1b\\[[0-9;]*m", "", shown[name])
    assert COLOUR.search(shown["wanted"]) and not COLOUR.search(shown["unwanted"]) and "\x1b" not in shown["dumb"]
    code, said, wrong = whole("run", files, "--out", tmp_path / "out", stdin=subprocess.DEVNULL)
    assert (code, wrong) == (0, "") and "\x1b" not in said


# Languages, hashes, threads, loops of events, notebooks


@pytest.fixture
def decimal_comma(tmp_path, monkeypatch):
    """A locale in which numbers have a decimal comma, in this process."""
    made = shutil.which("localedef") and subprocess.run(
        ["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"], capture_output=True
    )
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
    except locale.Error:
        pytest.skip(f"this system cannot make a locale with a decimal comma: {made}")
    yield
    locale.setlocale(locale.LC_ALL, before)


@pytest.mark.slow
def test_a_locale_with_a_decimal_comma_changes_no_number(tmp_path, files, finished, decimal_comma):
    assert locale.localeconv()["decimal_point"] == ","
    assert turnout("run", files, "--out", tmp_path / "out")[0] == 0
    assert results(tmp_path / "out") == results(finished["run"])
    (tmp_path / "rows.csv").write_text("a,b,y\n1.5,2e-3,0\n-0.25,1000.125,1\n")
    (tmp_path / "rows.txt").write_text("0 1:1.5 2:2e-3\n1 1:-0.25 2:1000.125\n")
    for rows in (load(tmp_path / "rows.csv", label="y"), load(tmp_path / "rows.txt")):
        np.testing.assert_array_equal(np.asarray(csr_array(rows.features).todense()), [[1.5, 2e-3], [-0.25, 1000.125]])


@pytest.mark.slow
def test_a_plain_locale_and_other_hashes_change_nothing(tmp_path, files, finished):
    file = shutil.copy(files, tmp_path / "été.toml")
    for seed, language in ((1, "C"), (2, "POSIX")):
        variables = {"PYTHONHASHSEED": str(seed), "LC_ALL": language, "LANG": language}
        code, said, wrong = whole("run", files, "--out", tmp_path / str(seed), variables=variables)
        assert (code, wrong) == (0, "") and results(tmp_path / str(seed)) == results(finished["run"])
    code, said, wrong = whole("run", file, "--out", tmp_path / "свой", variables=variables)
    assert (code, wrong) == (0, "") and "été" in said


def numbers() -> list:
    """The results of a run, a sweep and a study."""
    problem = t.Quadratic.random(12, 5, seed=1)
    algorithm = t.MbGd(t.Nice(4), lr=0.1)
    run = t.run(algorithm, problem, rounds=5, metrics=("gradient",))
    sweep = t.sweep(algorithm, problem, {"lr": [0.02, 0.05]}, seeds=range(2), rounds=5, metrics=("gradient",))
    study = t.study(tables(), methods=["mbgd"], problems=["made"], seeds=1)
    frames = [run.frame, *(trace.frame for trace in sweep.traces), study.runs]
    return [frame.select(pl.exclude("seconds")).rows() for frame in frames]


@pytest.fixture(scope="module")
def expected() -> list:
    """These results, from the main thread."""
    return numbers()


@pytest.mark.slow
def test_a_thread_that_is_not_the_main_one(expected):
    found = []
    thread = threading.Thread(target=lambda: found.append(numbers()))
    thread.start()
    thread.join(300)
    assert found == [expected]


@pytest.mark.longer
def test_a_loop_of_events_that_runs_already(expected):
    async def inside():
        return numbers()

    assert asyncio.run(inside()) == expected


@pytest.mark.slow
def test_a_notebook(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    cells = [
        "import turnout as t",
        "problem = t.Quadratic.random(12, 5, seed=1)\n"
        "trace = t.run(t.MbGd(t.Nice(4), lr=0.1), problem, rounds=5, metrics=('gradient',))\ntrace",
        "print(repr(float(trace.columns['gradient'][-1])))",
        "study = t.study({'seeds': 2, 'run': {'rounds': 5}, 'problems': {'made': problem},\n"
        "  'methods': {'gd': t.Gd(t.Full(), lr=0.1)}, 'goals': {'near': {'metric': 'gradient', 'share': 0.5}}})\nstudy",
        "t.Nice(0)",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(book, timeout=300, allow_errors=True, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [cell.outputs for cell in book.cells]
    assert outputs[0] == [] and "<svg" in outputs[1][0].data["text/html"]
    here = t.run(t.MbGd(t.Nice(4), lr=0.1), t.Quadratic.random(12, 5, seed=1), rounds=5, metrics=("gradient",))
    assert float(outputs[2][0].text) == pytest.approx(float(here.columns["gradient"][-1]), rel=1e-12)
    assert any("text/html" in output.get("data", {}) for output in outputs[3])
    assert outputs[4][0].ename == "UserError"


# Ctrl-C

STOPPED = "turnout: stopped"


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["turnout.cli", "jaxlib", "polars"])
def test_ctrl_c_while_modules_are_imported(files, tmp_path, stage):
    """Python tells which modules it imports, so that the moment is known."""
    command = [sys.executable, "-X", "importtime", "-m", "turnout", *COMMANDS["run"](files, tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.rsplit("|")[-1].strip().startswith(stage):
            process.send_signal(signal.SIGINT)
            break
    said, wrong = process.communicate(timeout=60)
    wrong = [line for line in wrong.splitlines() if not line.startswith("import time:")]
    assert (process.returncode, said, len(wrong)) == (130, "", 1) and wrong[0].startswith(STOPPED)
    assert "resume" not in wrong[0] or (tmp_path / "out" / "config.toml").exists()


def interrupted(command, ready) -> tuple[int, str]:
    """Send Ctrl-C to a command and its children, as a terminal does, once `ready(process)`; return its code and errors."""
    process = start(*command, start_new_session=True)
    wait_for(lambda: ready(process) or process.poll() is not None)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    _, wrong = process.communicate(timeout=120)
    assert not children(process.pid)
    return process.returncode, wrong


@pytest.mark.tiers(longer=["run-config.toml", "pictures-figures"], slow=["run-trace.parquet", "study-runs", "study-runs.parquet"])
@pytest.mark.parametrize(
    ("name", "file"),
    [("run", "config.toml"), ("run", "trace.parquet"), ("study", "runs"), ("study", "runs.parquet"), ("pictures", "figures")],
)
def test_ctrl_c_at_every_stage(files, tmp_path, finished, name, file):
    """When the last rounds are played, a command may end first; in any case nothing is lost, and it says so in one sentence."""
    out = tmp_path / "out"
    code, wrong = interrupted(COMMANDS[name](files, out), lambda _: (out / file).exists())
    assert (code, wrong) == (0, "") or (code == 130 and re.fullmatch(f"{STOPPED}; .*\n", wrong)), (code, wrong)
    code, _, wrong = turnout(*(("resume", out) if name == "run" else COMMANDS[name](files, out)))
    assert (code, wrong) == (0, "") and results(finished[name.replace("pictures", "study")]).items() <= results(out).items()
    assert (out / "report.html").exists() and not [*out.rglob("*.partial")]


@pytest.mark.slow
def test_ctrl_c_while_workers_begin(files, tmp_path, finished):
    out = tmp_path / "out"
    command = (*COMMANDS["study"](files, out), "--workers", "2")
    code, wrong = interrupted(command, lambda process: len(children(process.pid)) > 1)
    assert (code, wrong) == (130, f"{STOPPED}; the same command goes on with it\n")
    assert turnout(*command)[0] == 0 and results(out) == results(finished["study"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["describe", "theory"])
def test_ctrl_c_where_nothing_is_kept(files, tmp_path, name):
    """Other threads compile then, and must not crash at the end of the process."""
    command = ("describe", files) if name == "describe" else COMMANDS["theory"](files, tmp_path / "out")
    maps = lambda process: "jaxlib" in Path(f"/proc/{process.pid}/maps").read_text()  # noqa: E731
    assert interrupted(command, maps) == (130, f"{STOPPED}\n")


@pytest.mark.slow
def test_ctrl_c_in_a_federation_ends_the_round_first(tmp_path):
    """The SuperLink and the nodes, which a terminal interrupts too, live until the server has what it needs."""
    pytest.importorskip("flwr")
    out = tmp_path / "out"
    command = ("deploy", config(tmp_path, run={"rounds": 20_000}), "--out", out)
    code, wrong = interrupted(command, lambda _: (out / "checkpoint.safetensors").exists())
    assert code == 130 and wrong.endswith(f"{STOPPED}; the same command goes on with it\n") and "Traceback" not in wrong
    assert not (out / "summary.json").exists()
