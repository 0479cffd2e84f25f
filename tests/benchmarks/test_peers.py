"""Comparing with other frameworks: the check of answers, the table, what is said of a peer that fails, and the bare programs."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.peers.answers import apart, value
from benchmarks.peers.environments import Peer, python_of
from benchmarks.peers.program import Failed, Program
from benchmarks.peers.serve import Workload
from benchmarks.peers.table import markdown

import turnout as t
from turnout.vectors import environments

CLIENTS, ROWS, WIDTH, COHORT, ROUNDS = 6, 4, 3, 2, 20


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(CLIENTS, ROWS, WIDTH)).astype(np.float32)
    labels = generator.choice([-1.0, 1.0], size=(CLIENTS, ROWS)).astype(np.float32)
    cohorts = np.array([generator.choice(CLIENTS, COHORT, replace=False) for _ in range(ROUNDS)])
    made = Workload(features, labels, cohorts, np.zeros(WIDTH, np.float32), lr=0.1, epochs=5, batch=ROWS, mu=0.01)
    file = tmp_path_factory.mktemp("workload") / "workload.npz"
    made.write(file)
    return made, file


def averaged(w: Workload, rounds: int, steps: int | None = None):
    """Return the parameters after rounds of federated averaging in double precision, row by row."""
    x = w.start.astype(float)
    for cohort in w.cohorts[:rounds]:
        ends = []
        for client in cohort:
            y = x
            for _ in range(steps or w.epochs):
                pulls = [
                    sign * row / (1 + np.exp(sign * (row @ y)))
                    for row, sign in zip(w.features[client].astype(float), w.labels[client], strict=True)
                ]
                y = y + w.lr * (np.mean(pulls, axis=0) - w.mu * y)
            ends.append(y)
        x = np.mean(ends, axis=0)
    return x


def test_a_workload_comes_back_from_its_file(workload):
    made, file = workload
    again = Workload.read(str(file))
    assert again.epochs == 5 and again.mu == 0.01 and (again.clients, again.cohort) == (CLIENTS, COHORT)
    np.testing.assert_array_equal(again.features, made.features)


def test_f_falls_along_its_gradient_as_its_difference_quotient_says(workload):
    w, _ = workload
    x, step = np.array([0.3, -0.2, 0.1]), 1e-6
    quotient = [(value(w, x + step * axis) - value(w, x - step * axis)) / (2 * step) for axis in np.eye(WIDTH)]
    everyone = Workload(**{**vars(w), "cohorts": np.arange(CLIENTS)[None], "start": x, "epochs": 1})
    np.testing.assert_allclose((x - averaged(everyone, 1)) / w.lr, quotient, atol=1e-8)


@pytest.mark.parametrize("wrong", [{"rounds": ROUNDS - 1}, {"rounds": ROUNDS, "steps": 4}])
def test_an_answer_of_less_work_is_refused_and_the_same_in_single_precision_is_not(workload, wrong):
    w, _ = workload
    start, right = value(w, w.start), averaged(w, ROUNDS)
    reference = value(w, right)
    assert apart(value(w, averaged(w, **wrong)), start, [reference]) > 1
    assert apart(value(w, right.astype(np.float32)), start, [reference]) < 0.1


def test_an_answer_with_other_cohorts_is_held_to_the_spread_over_seeds():
    seeds = [1.0, 2.0, 3.0]
    assert apart(2.0, 9.0, seeds) == 0
    assert apart(7.0, 9.0, seeds) == pytest.approx(1)  # The deviation is 1, and five are allowed.
    assert apart(7.1, 9.0, seeds) > 1


def test_a_program_that_ends_is_told_with_its_last_words(workload, tmp_path):
    with Program("nobody", workload[1], tmp_path / "log") as program, pytest.raises(Failed, match="nobody ended: .*No module"):
        program.ask(rounds=1)


def test_a_program_that_takes_too_long_is_ended_and_told(workload, tmp_path):
    endless = tmp_path / "endless.npz"
    replace(workload[0], epochs=10**12).write(endless)
    program = Program("numpy_loop", endless, tmp_path / "log", limit=0.1)
    with program, pytest.raises(Failed, match="numpy_loop did not answer within 0.1 s"):
        program.ask(rounds=1)
    assert program.process.returncode != 0


def test_an_environment_that_cannot_be_made_is_told_in_a_sentence():
    said = "NOTE: first\nERROR: No matching distribution found for nothing\nlast"
    command = [sys.executable, "-c", f"import sys; sys.exit({said!r})"]
    with pytest.raises(t.UserError, match="^pip failed: ERROR: No matching distribution found for nothing$"):
        environments.run(command, 60, "pip")
    with pytest.raises(t.UserError, match="^pip took longer than 0.01 s: give it more time$"):
        environments.run([sys.executable, "-c", "import signal; signal.pause()"], 0.01, "pip")


def test_an_environment_is_used_again_while_its_versions_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNOUT_PEERS", str(tmp_path))
    peer = Peer("some", "Some peer", ("nothing==1",), alone=("other==2",))
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "installed.json").write_text('["nothing==1", "other==2"]')
    assert python_of(peer) == str(tmp_path / "some" / "bin" / "python")
    assert python_of(Peer("bare", "A bare program")) == sys.executable


def test_the_table_has_speeds_ratios_and_the_sentence_of_who_failed():
    def outcome(title, workload="W1", per_second=1234.5, ratio=1.0, problem=""):
        return {"workload": workload, "title": title, "version": "1.0", "per_second": per_second, "ratio": ratio, "first": 2.04,
                "problem": problem}  # fmt: skip

    slow, gone = outcome("Slow", per_second=0.71, ratio=1738.7), outcome("Gone", problem="Gone ended: no")
    lines = markdown([outcome("turnout"), slow, gone]).splitlines()
    assert lines[0] == "|  | version | W1: rounds/s | W1: turnout is | W1: first round |"
    assert lines[2] == "| turnout | 1.0 | 1,234 | 1.0 x | 2.0 s |"
    assert lines[3] == "| Slow | 1.0 | 0.71 | 1,739 x | 2.0 s |"
    assert lines[4] == "| Gone | 1.0 | — | — | — |"
    assert lines[-1] == "W1: Gone ended: no."


@pytest.mark.tiers(longer=["numpy_loop", "numpy_batched"], slow=["jax_scan"])
@pytest.mark.parametrize("name", ["numpy_loop", "numpy_batched", "jax_scan"])
def test_a_bare_program_averages(workload, tmp_path, name):
    w, file = workload
    with Program(name, file, tmp_path / "log") as program:
        answers = [program.ask(rounds=rounds) for rounds in (1, ROUNDS)]
    for rounds, answer in zip((1, ROUNDS), answers, strict=True):
        np.testing.assert_allclose(answer["x"], averaged(w, rounds), rtol=1e-4, atol=1e-6)
        assert answer["seconds"] > 0


@pytest.mark.slow
def test_turnout_is_measured_against_a_program_with_its_cohorts(workload, tmp_path):
    from benchmarks.peers.compare import Against
    from benchmarks.rounds import draw_all

    import turnout as t

    w, _ = workload
    cohorts = np.asarray(draw_all(t.Nice(COHORT), t.Population(count=CLIENTS), ROUNDS))
    w = Workload(**{**vars(w), "cohorts": cohorts})
    file = tmp_path / "workload.npz"
    w.write(file)
    with Program("turnout", file, tmp_path / "log") as ours:
        against = Against(w, ours, file)
        right = against.outcome("small", Peer("numpy_loop", "NumPy"))
        other = Workload(**{**vars(w), "lr": 0.09})
        other.write(file)
        wrong = against.outcome("small", Peer("numpy_loop", "NumPy"))
    assert right.problem == "" and right.apart < 0.5 and right.ratio > 0 and right.per_second > 0 and right.first > 0
    assert wrong.problem.startswith("NumPy has another f after 5 rounds")


@pytest.mark.everything
def test_turnout_s_networks_go_where_a_loop_in_pytorch_goes(tmp_path):
    from benchmarks.femnist_bare import network
    from benchmarks.peers.in_torch import parameters
    from benchmarks.rounds import draw_all

    import turnout as t

    generator, shape, side, classes = np.random.default_rng(0), (CLIENTS, ROWS), 10, 3
    images = generator.integers(256, size=(*shape, side**2), dtype=np.uint8)
    cohorts = np.asarray(draw_all(t.Nice(COHORT), t.Population(count=CLIENTS), 3))
    # All rows are one batch, so that nothing is shuffled.
    settings = {"lr": 0.05, "epochs": 2, "batch": ROWS, "mu": 0.0, "classes": classes}
    w = Workload(images, generator.integers(classes, size=shape), cohorts, parameters(network(side, classes)), **settings)
    file = tmp_path / "workload.npz"
    w.write(file)
    ends = {}
    for name in ("torch_loop", "turnout", "turnout_nodes"):
        with Program(name, file, tmp_path / "log") as program:
            ends[name] = program.ask(rounds=3)["x"]
    moved = np.linalg.norm(ends["torch_loop"] - w.start)
    for name in ("turnout", "turnout_nodes"):
        assert np.linalg.norm(ends[name] - ends["torch_loop"]) < 1e-4 * moved
