"""What a user may write is there in later versions, unless it was deprecated before."""

from tests.helpers.surface import FILE, surface


def test_no_name_key_kind_or_option_is_gone():
    """After a deprecation, `python -m tests.helpers.surface` writes the file anew."""
    assert not {*FILE.read_text().splitlines()} - {*surface()}


def test_names_are_of_every_kind():
    found = surface()
    assert {
        "turnout.FedAvg",
        "[run] rounds",
        "algorithm fedavg lr",
        "sampler nice size",
        "turnout run --out",
        "turnout data list",
    } <= {*found}
