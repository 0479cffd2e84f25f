"""The studies of the papers: what a scale changes."""

from turnout.studies.papers import laid_over


def test_a_scale_changes_keys_and_replaces_tables_with_a_kind():
    study = {"run": {"rounds": 60, "every": 2}, "problem": {"kind": "neural", "model": "perceptron", "hidden": 64}}
    scale = {"run": {"rounds": 100}, "problem": {"kind": "neural", "model": "femnist-cnn"}}
    assert laid_over(study, scale) == {"run": {"rounds": 100, "every": 2}, "problem": scale["problem"]}
