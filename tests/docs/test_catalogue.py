"""The table of all algorithms has each of them once, with what a reader of its page would count."""

import pytest

import turnout as t
from tests.helpers.site_hooks import hook

CATALOGUE, REFERENCE = hook("catalogue"), hook("reference")

ROWS = {
    t.FedAvg: ("Local steps", "nothing", "1", "1 vector", "1 vector", "a sum", "yes", ""),
    t.Scaffold: ("Local steps with memory", "1 vector", "1", "2 vectors", "2 vectors", "a sum", "yes", ""),
    t.Mime: ("Local steps", "nothing", "1", "1 vector; 2 vectors", "1 vector", "a sum", "yes", ""),
    # One of three coordinates travels: its number, a byte, and its value.
    t.Disco: ("Second order", "1 vector"),
    t.Ef21: ("Compressed differences", "1 vector", "1", "1 vector", "17 B", "each reply", "own", ""),
    t.Dane: (
        "Proximal and dual steps",
        "2 vectors",
        "1",
        "1 vector",
        "1 vector",
        "a sum",
        "yes",
        r"$x - x^\star$ itself, in every round",
    ),
}
"""Family and cells, counted by hand from the docstrings, as far as they are given."""


@pytest.mark.tiers(quick=[], longer=["FedAvg", "Ef21"], slow=["Disco"])
@pytest.mark.parametrize("cls", ROWS, ids=lambda cls: cls.__name__)
def test_the_row_of_an_algorithm_is_what_one_counts_by_hand(cls):
    found = (CATALOGUE.family_of(cls.__name__, cls), *CATALOGUE.row(cls.__name__, cls)[1:])
    assert found[: len(ROWS[cls])] == ROWS[cls]


@pytest.mark.everything
def test_every_algorithm_is_in_one_family_of_the_table_and_of_the_menu():
    algorithms = REFERENCE.algorithms()
    page, families = CATALOGUE.page(algorithms), CATALOGUE.families(algorithms)
    assert sorted(name for members in families.values() for name in members) == sorted(algorithms)
    for name in algorithms:
        assert page.count(f"\n| [`{name}`](") == 1, name
    (menu,) = (entry["Algorithms"] for entry in REFERENCE.navigation() if "Algorithms" in entry)
    assert [*menu[0].values()] == [CATALOGUE.PAGE]
    assert [[*entry] for entry in menu[1:]] == [[family] for family in families]


def test_promises_are_those_of_the_page_on_theorems():
    promises = CATALOGUE.promises()
    assert r"\gamma \mu_{AS}" in promises["FedProxSppm"] and promises["FedProxSppm"].endswith("with other constants")
    assert "Scaffnew" in promises and "FedAvg" not in promises
