"""The commands as a user meets them: what they write, and one sentence for every mistake."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file
from scipy.optimize import minimize
from sklearn.datasets import load_svmlight_file

from tests.helpers.commands import config, contents, on_a_terminal, stored_split, turnout
from turnout.data.catalogue import CATALOGUE

FILES = {
    "config.toml", "summary.json", "trace.parquet", "model.safetensors", "split.npz", "report.html", "figures.json",
    "checkpoint.safetensors",
}  # fmt: skip


def files(folder) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, its configuration and its folder."""
    folder = tmp_path_factory.mktemp("finished")
    path, out = config(folder), folder / "out"
    code, said, wrong = turnout("run", path, "--out", out)
    assert (code, wrong) == (0, ""), wrong
    assert str(out / "report.html") in said
    return path, out


@pytest.mark.longer
def test_a_run_leaves_exactly_its_results(finished):
    _, out = finished
    assert files(out) == FILES
    assert not (out / "figures").exists()
    summary, trace = json.loads((out / "summary.json").read_text()), pl.read_parquet(out / "trace.parquet")
    assert trace["round"].to_list() == list(range(7))
    assert summary["status"] == "finished" and summary["ledger"]["totals"]["exchanges"] == 6
    assert summary["metrics"]["distance"] == trace["distance"][-1]
    split = stored_split(out)
    assert sorted(split["indices"].tolist()) == list(range(569)) and split["offsets"].shape == (13,)
    assert load_file(out / "model.safetensors")["x"].shape == (30,)


@pytest.mark.longer
def test_the_written_configuration_repeats_the_run(finished, tmp_path):
    _, out = finished
    code, _, wrong = turnout("run", out / "config.toml", "--out", tmp_path / "again")
    assert code == 0, wrong
    for name in ("trace.parquet", "model.safetensors", "split.npz", "config.toml"):
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes()


@pytest.mark.slow
def test_a_run_with_nested_records_repeats_and_sweeps(tmp_path):
    coins = {"kind": "independent", "size": 4.0, "probability": {"kind": "k-vib", "mixing": 0.2}}
    sampler = {"kind": "available", "probability": 0.8, "sampler": coins}
    path = config(tmp_path, sampler=sampler, algorithm={"kind": "mbgd", "lr": 0.3})
    for name, source in (("first", path), ("again", tmp_path / "first" / "config.toml")):
        code, _, wrong = turnout("run", source, "--out", tmp_path / name)
        assert code == 0, wrong
    for name in ("trace.parquet", "config.toml"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()
    shown = json.loads((tmp_path / "first" / "summary.json").read_text())["sampler"]
    rule = shown["sampler"]["probability"]
    assert (rule["kind"], rule["mixing"], rule["rounds"]) == ("k-vib", 0.2, None)
    setting = "sampler.sampler.probability.mixing"
    code, _, wrong = turnout("sweep", path, "--out", tmp_path / "swept", "--set", f"{setting}=0.2,0.9")
    assert code == 0, wrong
    assert "mixing: must be at most 1" in refused(tmp_path, "sweep", path, "--out", tmp_path / "no", "--set", f"{setting}=2.0")
    swept, alone = (pl.read_parquet(tmp_path / name) for name in ("swept/runs.parquet", "first/trace.parquet"))
    assert swept[setting].n_unique() == 2
    np.testing.assert_allclose(swept.filter(pl.col(setting) == 0.2)["distance"], alone["distance"], rtol=1e-10)


def refused(folder, *arguments, **options) -> str:
    """Run a command that must fail: exit code 2, one line, and nothing of what existed changed."""
    before = contents(folder)
    code, out, err = turnout(*arguments, **options)
    assert code == 2, (code, out, err)
    assert err.count("\n") == 1 and err.startswith("turnout: ") and "Traceback" not in out + err, err
    assert contents(folder) == before
    return err


@pytest.mark.slow
def test_a_folder_that_holds_another_run_is_refused(finished):
    path, out = finished
    assert "holds another run" in refused(out.parent, "run", path, "--out", out)
    assert "holds another run" in refused(out.parent, "compare", path, "--out", out)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("+1 1:0.5 x", "line 3: .*'x'"),
        ("one 1:2", "line 3: .*'one'"),
        ("1 2:1 1:1", "line 3"),
        ("1 1:nan", "line 3"),
        ("1 1:inf", "line 3"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, words):
    import re

    (tmp_path / "bad.svm").write_text(f"1 1:1\n-1 1:2\n{line}\n-1 1:3\n")
    path = config(tmp_path, problem={"kind": "logistic", "data": str(tmp_path / "bad.svm")})
    assert re.search(f"bad.svm.*{words}", refused(tmp_path, "run", path, "--out", tmp_path / "out"))


@pytest.mark.tiers(everything=["tables7-no accuracy", "tables10-replies were lost"])
@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"problem": {"kind": "logistic", "data": "breast_canser"}}, "did you mean 'breast_cancer'"),
        ({"problem": {"kind": "logistic", "data": "iris"}}, "needs two classes, but iris has 3"),
        ({"sampler": {"kind": "nice", "size": 13}}, "wants 13 clients, but there are 12"),
        ({"split": {"kind": "iid", "clients": 600}}, "600"),
        ({"split": {"kind": "natural"}}, "natural"),
        ({"split": {"kind": "iid", "clients": 12}, "sampler": {"kind": "stratified"}}, "needs strata"),
        ({"problem": {"kind": "network", "data": "iris", "normalize": "columns"}}, "optimum of Network is not known"),
        ({"problem": {"kind": "ridge", "data": "diabetes"}, "target": {"metric": "accuracy", "below": 0.1}}, "no accuracy"),
        ({"sampler": {"kind": "delegate", "client": 12}, "algorithm": {"kind": "mbgd", "lr": 0.1}}, "names client 12"),
        ({"sampler": {"kind": "independent", "probability": 1.5}}, "probability"),
        ({"faults": {"loss": 0.5}}, "replies were lost"),
        ({"sweep": {"algorithm.lr": [0.1]}}, "turnout sweep"),
    ],
)
def test_what_cannot_be_run_is_one_sentence(tmp_path, tables, words):
    path, out = config(tmp_path, **tables), tmp_path / "out"
    code, _, err = turnout("run", path, "--out", out)
    assert code == 2 and err.count("\n") == 1 and words in err, err
    assert not out.exists() or files(out) <= {"config.toml", "checkpoint.safetensors"}


@pytest.mark.longer
def test_divergence_names_the_round_and_keeps_the_last_good_model(tmp_path):
    path = config(tmp_path, algorithm={"kind": "fedavg", "lr": 900.0, "steps": 4}, run={"rounds": 500})
    code, _, err = turnout("run", path, "--out", tmp_path / "out")
    assert code == 2 and err.count("\n") == 1 and "diverged at round" in err, err
    summary, trace = (
        json.loads((tmp_path / "out" / "summary.json").read_text()),
        pl.read_parquet(tmp_path / "out" / "trace.parquet"),
    )
    assert f"at round {summary['diverged']}:" in err and summary["status"] == "diverged"
    assert trace["round"][-1] == summary["diverged"] - 1 == summary["rounds"]
    assert (
        np.isfinite(trace["value"].to_numpy()).all() and np.isfinite(load_file(tmp_path / "out" / "model.safetensors")["x"]).all()
    )


@pytest.mark.slow
def test_a_full_disk_leaves_nothing_half_written(tmp_path):
    """The process may write files of 2,048 bytes at most, so that the configuration fits and nothing else does."""
    # Without -B, Python would leave half of a compiled module too.
    limited = ["bash", "-c", 'ulimit -f 2; exec "$@"', "bash", sys.executable, "-B", "-m", "turnout"]
    done = subprocess.run([*limited, "run", config(tmp_path), "--out", tmp_path / "out"], capture_output=True, text=True)
    code, err = done.returncode, done.stderr
    assert code == 2 and err.count("\n") == 1 and "cannot be written" in err, err
    assert files(tmp_path / "out") <= {"config.toml", "checkpoint.safetensors"}
    code, _, err = turnout("resume", tmp_path / "out")
    assert code == 0, err
    assert files(tmp_path / "out") == FILES


@pytest.mark.longer
def test_a_comparison_is_a_study_with_a_method_for_each_file(tmp_path):
    first, second = config(tmp_path, "slow", algorithm={"kind": "fedavg", "lr": 0.05}), config(tmp_path, "fast")
    code, said, err = turnout("compare", first, second, "--out", tmp_path / "out")
    assert (code, err) == (0, "") and "slow" in said and "fast" in said
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["command"].startswith("turnout compare") and summary["runs"] == 2
    assert "two configurations are named 'fast'" in refused(tmp_path, "compare", second, second, "--out", tmp_path / "other")
    wrong = config(tmp_path, "wrong", sampler={"kind": "nice", "size": 99})
    assert "wants 99" in refused(tmp_path, "compare", second, wrong, "--out", tmp_path / "other")
    assert "the command that began it" in refused(tmp_path, "resume", tmp_path / "out")
    assert "holds another run" in refused(tmp_path, "run", first, "--out", tmp_path / "out")


@pytest.mark.slow
def test_a_sweeps_cell_is_the_run_with_its_settings(tmp_path):
    path, out = config(tmp_path), tmp_path / "out"
    grid = ("--set", "algorithm.lr=0.1,0.3", "--set", "sampler.size=4,5", "--seeds", "0,1")
    code, said, err = turnout("sweep", path, *grid, "--out", out)
    assert (code, err) == (0, ""), err
    single = config(tmp_path, "single", run={"rounds": 6, "seed": 1})
    assert turnout("run", single, "--out", tmp_path / "single")[0] == 0
    runs = pl.read_parquet(out / "runs.parquet")
    cell = runs.filter(pl.col("algorithm.lr") == 0.3, pl.col("sampler.size") == 4, pl.col("seed") == 1)
    one = pl.read_parquet(tmp_path / "single" / "trace.parquet")
    np.testing.assert_allclose(cell["distance"], one["distance"], rtol=1e-12)
    assert cell["bytes_up"].to_list() == one["bytes_up"].to_list()
    table = pl.read_csv(out / "tables" / "distance-0.1-exchanges.csv")
    assert set(table.select("algorithm.lr", "sampler.size").rows()) == {(0.1, 4), (0.1, 5), (0.3, 4), (0.3, 5)}
    assert table["cost"].is_sorted() and "lr = 0.3, size = 4" in said
    for bad, words in (
        ("algorithm.lrr=1", "did you mean 'lr'"),
        ("lr=x", "must be a number"),
        ("lr=-1", "greater"),
        ("lr", "write a name and values"),
        ("sampler.kind=nicer", "did you mean 'nice'"),
    ):
        assert words in refused(tmp_path, "sweep", path, "--set", bad, "--out", tmp_path / "other")


def test_every_known_set_is_listed():
    code, said, _ = turnout("data", "list")
    assert code == 0 and all(name in said for name in CATALOGUE)


def test_help_names_every_command():
    _, said, _ = turnout("--help")
    assert all(name in said for name in ("run", "compare", "sweep", "resume", "data"))
    assert turnout("data", "fetch", "nothing", "--data", "/nowhere")[0] == 2


@pytest.mark.slow
def test_progress_shows_on_a_terminal_and_nowhere_else(tmp_path, finished):
    assert turnout("run", config(tmp_path), "--out", tmp_path / "quiet")[2] == ""
    code, shown = on_a_terminal("run", config(tmp_path), "--out", tmp_path / "loud", stderr=True)
    assert code == 0 and "distance" in shown and "exchanges" in shown


EXAMPLE = "examples/adult/sppm-stratified.toml"


@pytest.mark.longer
def test_the_main_job_on_real_data(tmp_path, real_data, request):
    out = tmp_path / "out"
    code, _, err = turnout("run", request.config.rootpath / EXAMPLE, "--out", out)
    assert (code, err) == (0, ""), err
    summary, trace = json.loads((out / "summary.json").read_text()), pl.read_parquet(out / "trace.parquet")
    assert trace["exchanges"].to_list() == [10 * k for k in range(21)]
    assert summary["target"]["costs"].keys() == {"exchanges", "hierarchical(c1=0.1, c2=1)"}
    split, x = stored_split(out), load_file(out / "model.safetensors")["x"]
    assert x.shape == (122,) and split["offsets"].shape == (101,) and sorted(split["indices"]) == list(range(11220))
    import lzma

    with lzma.open(real_data / "a6a.xz") as file:
        features, labels = load_svmlight_file(file, n_features=122)
    share = np.zeros(11220)
    for a, b in zip(split["offsets"], split["offsets"][1:], strict=False):
        share[split["indices"][a:b]] = 1 / (100 * (b - a))

    def f(x):
        margins = labels * (features @ x)
        slopes = -labels * share / (1 + np.exp(margins))
        return share @ np.logaddexp(0, -margins) + 0.05 * x @ x, features.T @ slopes + 0.1 * x

    optimum = minimize(f, np.zeros(122), jac=True, method="BFGS", options={"gtol": 1e-11}).x
    assert trace["distance"][-1] == pytest.approx(np.sum((x - optimum) ** 2), abs=1e-8)
    assert trace["value"][-1] == pytest.approx(f(x)[0], rel=1e-12)


@pytest.mark.longer
def test_the_seconds_of_a_run_are_those_of_its_parts(tmp_path):
    path = config(tmp_path)
    code, said, err = turnout("run", path, "--out", tmp_path / "timed", "--timing")
    assert (code, err) == (0, "") and "seconds: import" in said
    timing = json.loads((tmp_path / "timed" / "summary.json").read_text())["timing"]
    total = timing.pop("total")
    assert min(timing.values()) >= 0 and timing["compile"] > 0 and timing["data"] > 0 and timing["metrics"] > 0
    np.testing.assert_allclose(sum(timing.values()), total, atol=0.01)
    code, said, err = turnout("run", path, "--out", tmp_path / "plain")
    assert (code, err) == (0, "") and "seconds:" not in said
    assert "timing" not in json.loads((tmp_path / "plain" / "summary.json").read_text())
    for name in ("trace.parquet", "model.safetensors"):
        assert (tmp_path / "timed" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_a_configuration_asks_for_its_seconds(tmp_path):
    code, said, err = turnout("run", config(tmp_path, run={"rounds": 6, "timing": True}), "--out", tmp_path / "out")
    assert (code, err) == (0, "") and "seconds: import" in said
