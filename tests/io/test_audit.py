"""Whatever is done to a log of entries is found out, with the number of the line."""

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.commands import turnout
from turnout.core.errors import UserError
from turnout.io.audit import AuditLog, End, digest_of, read_entries, written

LINES = 5
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def written_log(folder: Path, lines: int = LINES) -> Path:
    log = AuditLog(folder / "audit-0.jsonl")
    for k in range(lines):
        log.append(asked=f"question {k}")
    return log.file


def end_of(file: Path) -> Path:
    return file.with_name(file.name + ".end")


def test_entries_are_read_as_they_were_written(tmp_path):
    file = written_log(tmp_path)
    entries = read_entries(file)
    assert [(entry["line"], entry["asked"]) for entry in entries] == [(k + 1, f"question {k}") for k in range(LINES)]
    assert [*map(lambda path: stat.S_IMODE(path.stat().st_mode), (file, end_of(file)))] == [0o600, 0o600]


@pytest.mark.longer
@given(fields=st.dictionaries(st.text(), JSON, max_size=4))
@settings(deadline=None, max_examples=50)
def test_any_fields_come_back(tmp_path_factory, fields):
    names = ("line", "time", "previous", "digest", "self")
    fields = {name: value for name, value in fields.items() if name not in names}
    log = AuditLog(tmp_path_factory.mktemp("log") / "log")
    log.append(**fields)
    log.append(**fields)
    for entry in read_entries(log.file):
        assert {name: value for name, value in entry.items() if name not in names} == fields


@pytest.mark.longer
@given(position=st.integers(0, 10**6), byte=st.integers(0, 255))
@settings(deadline=None, max_examples=100)
def test_a_changed_byte_is_found_in_its_line(tmp_path_factory, position, byte):
    file = written_log(tmp_path_factory.mktemp("log"))
    content = bytearray(file.read_bytes())
    position %= len(content)
    if content[position] == byte:
        return
    line = content[:position].count(b"\n") + 1
    content[position] = byte
    file.write_bytes(content)
    with pytest.raises(UserError, match=rf"line {line} (was changed|is missing)"):
        read_entries(file)


@pytest.mark.longer
@given(order=st.permutations(range(LINES)), kept=st.integers(0, LINES))
@settings(deadline=None, max_examples=100)
def test_lines_that_were_moved_or_removed_are_found(tmp_path_factory, order, kept):
    file = written_log(tmp_path_factory.mktemp("log"))
    lines, order = file.read_bytes().splitlines(keepends=True), order[:kept]
    file.write_bytes(b"".join(lines[k] for k in order))
    wrong = next((k for k, line in enumerate(order) if k != line), kept)
    if wrong == LINES:
        assert len(read_entries(file)) == LINES
        return
    with pytest.raises(UserError, match=f"line {wrong + 1} is missing"):
        read_entries(file)


def test_a_line_with_digests_of_its_own_does_not_fit(tmp_path):
    """A person who changes a line and its digest, or all digests from there on."""
    file = written_log(tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    entry = {name: value for name, value in json.loads(lines[2]).items() if name != "digest"}
    lines[2] = written(entry | {"asked": "nothing"})
    file.write_bytes(b"".join(lines))
    with pytest.raises(UserError, match="line 4 does not follow line 3: one of them is not the one that was written"):
        read_entries(file)
    for k in (3, 4):
        entry = {name: value for name, value in json.loads(lines[k]).items() if name != "digest"}
        lines[k] = written(entry | {"previous": digest_of(lines[k - 1])})
    file.write_bytes(b"".join(lines))
    with pytest.raises(UserError, match="line 5 was changed: it is not the one that was written last"):
        read_entries(file)


def test_without_the_file_of_the_end_nobody_knows_it(tmp_path):
    file = written_log(tmp_path)
    end_of(file).unlink()
    with pytest.raises(UserError, match="audit-0.jsonl.end is missing"):
        read_entries(file)
    with pytest.raises(UserError, match="was changed"):
        AuditLog(file)


@pytest.mark.parametrize("part", [0.3, 1.0])
def test_a_process_that_was_killed_while_it_wrote_leaves_a_log_that_is_sound(tmp_path, part):
    """Half a line, or a whole one that the file of the end does not know of."""
    file = written_log(tmp_path)
    before = file.read_bytes()
    end = End(**json.loads(end_of(file).read_text()))
    line = written({"line": LINES + 1, "asked": "the last", "previous": end.digest})
    file.write_bytes(before + line[: int(part * len(line))])
    assert len(read_entries(file)) == LINES + (part == 1)
    AuditLog(file).append(asked="more")
    assert read_entries(file)[-1]["line"] == LINES + 1 + (part == 1)


def test_the_command_shows_a_log_and_tells_what_is_wrong(tmp_path):
    file = written_log(tmp_path / "states")
    AuditLog(file).append(run=7, asked="ask", header="[bold]", answer="reply", request_bytes=3, reply_bytes=4, epsilon=2.5)
    file.write_bytes(file.read_bytes().replace(b"question 1", b"question 7"))
    code, _, errors = turnout("audit", tmp_path)
    assert code == 2 and errors == f"turnout: {file}: line 2 was changed\n"
    code, _, errors = turnout("audit", tmp_path / "none")
    assert code == 2 and "cannot be read" in errors
    (tmp_path / "empty").mkdir()
    code, _, errors = turnout("audit", tmp_path / "empty")
    assert code == 2 and "holds no log" in errors


def test_the_command_shows_each_log_of_a_folder(tmp_path):
    for k in range(2):
        log = AuditLog(tmp_path / f"states-{k}" / f"audit-{k}.jsonl")
        log.append(**{"run": 7, "from": 1}, asked="ask", header="[bold]", answer="reply", request_bytes=3, epsilon=2.5)
    code, out, _ = turnout("audit", tmp_path)
    assert code == 0 and out.count("as the node wrote it: 1 lines") == 2 and "2.5" in out and "[bold]" in out
