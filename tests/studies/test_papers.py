"""The studies that are shipped: everything that they declare can be read, and what a scale changes."""

from functools import partial
from pathlib import Path

import pytest

import turnout as t
from tests.helpers.commands import turnout
from turnout.studies.cases import Cases
from turnout.studies.configurations import read_sources
from turnout.studies.grid import settings_of
from turnout.studies.papers import PAPERS, laid_over, paper, papers
from turnout.studies.reader import DeclarationReader
from turnout.studies.resolved import fitted, resolve

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCES = {
    **{name: partial(paper, name) for name in papers()},
    **{f"{path.parents[1].name}-paper": partial(paper, path.parents[1].name, "paper") for path in PAPERS.glob("*/scales/*.toml")},
    **{path.parent.name: partial(read_sources, [path.parent]) for path in EXAMPLES.rglob("study.toml")},
}


@pytest.mark.tiers(longer=["compression"], slow=["cohort-squeeze", "sketched-newton"], everything=["cost-aware-regimes"])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_setting_is_a_configuration_and_its_parts_are_known(source):
    declaration = DeclarationReader(source()).declaration()
    assert declaration.pairs
    for problem, method in declaration.pairs:
        for setting in settings_of(declaration, problem, method):
            assert isinstance(setting.experiment().algorithm, t.Algorithm)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::turnout.core.errors.Caution")
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_method_fits_its_problem(source):
    declaration, cases = DeclarationReader(source()).declaration(), Cases(None)
    for place, (problem, method) in enumerate(declaration.pairs):
        setting = settings_of(declaration, problem, method)[0]
        try:
            assert isinstance(fitted(resolve(declaration, (place, 0), setting, cases)), t.Algorithm)
        except t.UserError as error:
            # Not every machine has the data of every study.
            assert "there is no such file or folder" in str(error)


def test_papers_are_listed_and_mistakes_told():
    code, out, _ = turnout("study", "--list")
    assert code == 0 and all(f"{name}: " in out for name in papers()) and str(PAPERS) in out
    assert out in turnout("reproduce", "--help")[1] and "problems: mnist, news20, mlp, mnist-two, mlp-two" in out
    assert out.count("takes ") == len(papers())
    for arguments, words in ((["feddcb"], "unknown paper 'feddcb': did you mean 'feddcd'"), (["feddcd"], "give --out DIR")):
        code, _, wrong = turnout("reproduce", *arguments)
        assert code == 2 and words in wrong
    with pytest.raises(t.UserError, match="feddcd has a single scale: leave --scale out"):
        paper("feddcd", "paper")
    with pytest.raises(t.UserError, match="unknown scale 'papr': did you mean 'paper'"):
        paper("k-vib-networks", "papr")


def test_a_scale_changes_keys_and_replaces_tables_with_a_kind():
    study = {"run": {"rounds": 60, "every": 2}, "problem": {"kind": "neural", "model": "perceptron", "hidden": 64}}
    scale = {"run": {"rounds": 100}, "problem": {"kind": "neural", "model": "femnist-cnn"}}
    assert laid_over(study, scale) == {"run": {"rounds": 100, "every": 2}, "problem": scale["problem"]}
