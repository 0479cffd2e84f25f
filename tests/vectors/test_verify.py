"""turnout verify: what is said of packages, and of what cannot be read or run."""

import json
import sys
from pathlib import Path

import pytest

import turnout as t
from tests.helpers.commands import turnout
from turnout import vectors
from turnout.experiment.registry import TABLES
from turnout.vectors import packages, verdicts
from turnout.vectors.reading import missing
from turnout.vectors.table import lines, markdown

FOUND = vectors.collection()[0]


def said(name: str, rounds, **further) -> dict:
    """The verdict on a program that makes `rounds` of the inputs of the vector `name`."""
    out = {"played": {name: {"rounds": rounds, **further}}, "absent": "not among its classes"}
    return verdicts.row(vectors.families(FOUND)[FOUND[name]["family"]], FOUND, out, "")


def moved(name: str, by: float) -> list:
    """The rounds of a vector, x of the second one moved."""
    rounds = json.loads(json.dumps(FOUND[name]["rounds"]))
    rounds[1]["server"]["x"][0] += by
    return rounds


def test_verdicts():
    assert said("scaffold-2", FOUND["scaffold-2"]["rounds"])["verdict"] == "equal"
    variant = said("scaffold-2", FOUND["scaffold-2-no-fraction"]["rounds"])
    assert (variant["verdict"], variant["variant"], variant["first"]) == (
        "variant",
        "scaffold-2-no-fraction",
        "round 1, server, c",
    )
    different = said("scaffold-2", moved("scaffold-2", 0.01))
    assert (different["verdict"], different["first"]) == ("different", "round 2, server, x")
    assert said("scaffold-2", moved("scaffold-2", 1e-8))["precision"] == "rounded"
    assert said("scaffold-2", moved("scaffold-2", 4e-6))["verdict"] == "different"
    assert said("scaffold-2", moved("scaffold-2", 4e-6), precision="single")["verdict"] == "equal"
    assert said("scaffold-2", moved("scaffold-2", float("nan")))["difference"] is None
    assert said("scaffold-2", FOUND["scaffold-2"]["rounds"][:2])["first"] == "round 3, which is missing"
    assert said("adiana", [{}])["first"] == "round 1, server, y"


def test_a_newer_form_is_one_sentence_and_the_rest_goes_on(tmp_path):
    newer = FOUND["fedavg"] | {"format": 2}
    (tmp_path / "newer.json").write_text(json.dumps(newer))
    (tmp_path / "none.json").write_text("[]")
    (tmp_path / "part.json").write_text('{"format": 1}')
    (tmp_path / "mine.json").write_text(json.dumps(FOUND["fedprox"]))
    found, refused = vectors.collection(tmp_path)
    assert [*found] == ["fedprox"]
    assert refused == [
        f"{tmp_path}/newer.json has the form 2, and this turnout reads the form 1: use a newer turnout",
        f"{tmp_path}/none.json is no test vector: give a JSON file with the field format",
        f"{tmp_path}/part.json is no whole test vector: it lacks name, family, algorithm, variant, status, update, problem, "
        "parameters, tolerance, start, rounds",
    ]
    (tmp_path / "mine.json").unlink()
    with pytest.raises(t.UserError, match="no test vector that this turnout reads"):
        vectors.collection(tmp_path)
    with pytest.raises(t.UserError, match="did you mean 'fedavg'"):
        vectors.load("fedavgg")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Make a program that plays vectors with numpy, the name of which is a package."""

    def make(text: str, requirements=("numpy",)) -> str:
        path = tmp_path / "play_mine.py"
        path.write_text("import json, sys, time\ngiven, out = sys.argv[1:]\nvectors = json.load(open(given))['vectors']\n" + text)
        package = packages.Package("Mine", requirements, str(path))
        monkeypatch.setitem(packages.PACKAGES, "mine", package)
        return "mine"

    return make


WRITE = """
with open(out, "w") as file:
    json.dump({"played": {"fedavg": {"rounds": vectors["fedavg"]["rounds"]}}, "absent": "no"}, file)
"""


def own_version() -> str:
    from importlib.metadata import version

    return f"numpy=={version('numpy')}"


@pytest.mark.longer
def test_a_program_that_takes_too_long_is_one_sentence_and_what_it_played_counts(program, tmp_path):
    name = program(WRITE + "import signal; signal.pause()\n", (own_version(),))
    result = verdicts.hold(name, FOUND, tmp_path, timeout=5, python=Path(sys.executable))
    assert result["failed"] == "play_mine.py took longer than 5 s: give it more with --timeout"
    assert result["rows"]["fedavg"]["verdict"] == "equal"
    assert result["rows"]["fedprox"] == {"verdict": "cannot", "why": result["failed"]}
    told = [("fedavg", "equal to 1e-10"), ("all others", f"cannot be run: {result['failed']}")]
    assert [line[1:] for line in lines({"packages": [result]}, FOUND)] == told


def test_a_program_that_fails_is_one_sentence(program, tmp_path):
    name = program("raise ValueError('no such thing')\n", (own_version(),))
    result = verdicts.hold(name, FOUND, tmp_path, python=Path(sys.executable))
    assert result["failed"] == "play_mine.py failed: ValueError: no such thing"
    assert {row["verdict"] for row in result["rows"].values()} == {"cannot"}
    assert [line[1:] for line in lines({"packages": [result]}, FOUND)] == [("all", f"cannot be run: {result['failed']}")]


def test_another_version_is_one_sentence(program, tmp_path):
    name = program(WRITE, ("numpy==1.0",))
    result = verdicts.hold(name, FOUND, tmp_path, python=Path(sys.executable))
    assert "has numpy " in result["failed"] and "the program is for numpy 1.0" in result["failed"]
    assert result["versions"] == {}


@pytest.mark.slow
def test_what_pip_has_not_is_one_sentence(program, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    result = verdicts.hold(program(WRITE, ("numpy==0.0",)), FOUND, tmp_path / "environments")
    assert result["failed"] == "pip install numpy==0.0 failed: ERROR: No matching distribution found for numpy==0.0"


def test_no_cell_of_the_table_is_empty(program, tmp_path):
    name = program(WRITE, (own_version(),))
    held = [verdicts.hold(name, FOUND, tmp_path, python=Path(sys.executable)), verdicts.hold("pfllib", FOUND, tmp_path)]
    table = markdown({"packages": held}, FOUND)
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    assert all(cell.strip() for row in rows for cell in row)
    assert "| fedavg | equal to 1e-10 | read: as `fedavg` (" in table


def test_every_algorithm_has_vectors_or_a_reason():
    having = {vector["algorithm"] for vector in FOUND.values()}
    assert having.isdisjoint(missing())
    assert having | {*missing()} == {*TABLES["algorithm"]}
    assert all(missing().values())


def test_packages_that_are_not_known_are_one_sentence():
    code, _, errors = turnout("verify", "--against", "flour")
    assert (code, errors) == (2, "turnout: unknown package 'flour': did you mean 'flower'?\n")


@pytest.mark.longer
def test_flowers_strategies_are_held(tmp_path):
    """In this environment, which has Flower."""
    code, _, errors = turnout("verify", "--against", "flower", "--python", sys.executable, "--out", tmp_path / "found.json")
    assert code == 0, errors
    rows = json.loads((tmp_path / "found.json").read_text())["packages"][0]["rows"]
    assert rows["fedavg"]["verdict"] == "equal"
    assert {row["verdict"] for row in rows.values()} <= {"equal", "variant", "different", "absent"}
