"""What the site keeps of an algorithm: it is computed again where code that it depends on is another."""

import turnout as t
from tests.helpers.site_hooks import hook

FACTS = hook("facts")


def test_a_fact_is_computed_once_for_each_text(tmp_path, monkeypatch):
    monkeypatch.setenv("TURNOUT_CACHE", str(tmp_path))
    calls = []

    def fact(text: str):
        return FACTS.fact("test", "FedAvg", t.FedAvg, text, lambda: calls.append(text) or {"x": [0.1, 1e-14], "family": "α"})

    made = [fact(text) for text in ("t.FedAvg()", "t.FedAvg()", "t.FedAvg(2)")]
    assert made == [{"x": [0.1, 1e-14], "family": "α"}] * 3 and calls == ["t.FedAvg()", "t.FedAvg(2)"]


def test_a_fact_depends_on_the_files_of_an_algorithm_and_on_those_that_they_import(tmp_path, monkeypatch):
    for name, text in {"a": "from turnout.algorithms.b import B", "b": "", "c": ""}.items():
        (tmp_path / "turnout" / "algorithms").mkdir(parents=True, exist_ok=True)
        (tmp_path / "turnout" / "algorithms" / f"{name}.py").write_text(text)
    monkeypatch.setattr(FACTS, "SOURCES", tmp_path / "turnout")
    cls = type("A", (), {"__module__": "turnout.algorithms.a"})
    before = FACTS._own(cls, "")
    (tmp_path / "turnout" / "algorithms" / "c.py").write_text("changed = True")
    assert FACTS._own(cls, "") == before
    (tmp_path / "turnout" / "algorithms" / "b.py").write_text("changed = True")
    assert FACTS._own(cls, "") != before
