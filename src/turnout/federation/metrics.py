"""The status of a run as metrics for Prometheus, in its text format 0.0.4."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args, get_type_hints

from turnout.engines.flower.greeting import Standing
from turnout.federation.status import Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Media type of the format."""

ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
"""What labels must not hold as it is."""

Samples = Sequence[tuple[dict[str, str], float]]


def exposition(status: Status) -> str:
    """Return the metrics of a status as text.

    Args:
        status: The status.
    """
    lines = []
    for name, kind, told, samples in _families(status):
        lines += [f"# HELP turnout_{name} {told}", f"# TYPE turnout_{name} {kind}"]
        for labels, value in samples:
            given = ",".join(f'{label}="{text.translate(ESCAPES)}"' for label, text in labels.items())
            lines.append(f"turnout_{name}{{{given}}} {value}" if given else f"turnout_{name} {value}")
    return "\n".join(lines) + "\n"


def _families(status: Status) -> Iterator[tuple[str, str, str, Samples]]:
    """Yield name, type, help and samples of each metric."""
    states = get_args(get_type_hints(Status)["state"])
    groups = {"client": status.members, "hub": status.hubs}
    everybody = [(kind, i, member) for kind, members in groups.items() for i, member in enumerate(members)]
    standings = Counter((kind, member.standing) for kind, _, member in everybody)
    unusable = [({"reason": reason}, count) for reason, count in status.unusable_replies.items()]
    yield "round", "gauge", "Rounds so far.", [({}, status.round)]
    yield "rounds", "gauge", "Rounds of the run.", [({}, status.rounds)]
    yield "state", "gauge", "1 for what the server does.", [({"state": each}, int(each == status.state)) for each in states]
    yield "written_timestamp_seconds", "gauge", "When the server wrote this.", [({}, status.written.timestamp())]
    yield (
        "members",
        "gauge",
        "Members by kind and standing.",
        [
            ({"kind": kind, "standing": each}, standings[kind, each])
            for kind in groups
            if groups[kind]
            for each in get_args(Standing)
        ],
    )
    yield (
        "member_present",
        "gauge",
        "1 for a member that is present.",
        [
            ({"kind": kind, "number": str(i), "name": member.name}, int(member.standing == "present"))
            for kind, i, member in everybody
        ],
    )
    yield (
        "member_unusable_replies_total",
        "counter",
        "Replies of a member that could not be used or did not come, by reason.",
        [
            ({"kind": kind, "number": str(i), "name": member.name, "reason": reason}, count)
            for kind, i, member in everybody
            for reason, count in member.unusable.items()
        ],
    )
    yield "unusable_replies_total", "counter", "Replies that could not be used or did not come, by reason.", unusable
    sent = [({"direction": "down"}, status.bytes_down), ({"direction": "up"}, status.bytes_up)]
    yield "bytes_total", "counter", "Bytes of messages to clients (down) and of their replies (up).", sent
    if status.epsilon is not None:
        yield "privacy_epsilon", "gauge", "Differential privacy spent so far.", [({"delta": str(status.delta)}, status.epsilon)]
