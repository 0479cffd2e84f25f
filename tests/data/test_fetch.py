"""Fetching a data set from a real HTTP server on this machine."""

import bz2
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jax
import numpy as np
import pytest
from scipy.sparse import csr_array

from turnout.core.errors import UserError
from turnout.data import catalogue, fetch, load, read_libsvm
from turnout.data.catalogue import CATALOGUE, Entry
from turnout.data.dataset import checksum
from turnout.data.splits import ContiguousSplit
from turnout.problems import Multinomial

TEXT = b"1 1:0.5 3:2\n-1 2:1\n1 4:-1\n"


@dataclass
class Site:
    """Serves `answers`: path -> (status, content, announced length)."""

    url: str
    answers: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)

    def serve(self, path: str, content: bytes, status: int = 200, length: int | None = None) -> None:
        self.answers[path] = (status, content, len(content) if length is None else length)


@pytest.fixture
def site():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            site.asked.append(self.path)
            status, content, length = site.answers.get(self.path, (404, b"nothing here", 12))
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        site = Site(f"http://127.0.0.1:{server.server_port}/datasets/")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield site
        server.shutdown()
        thread.join()


@pytest.fixture
def small(tmp_path_factory, monkeypatch):
    """Put a small made set into the catalogue, as a compressed file of the site."""
    path = tmp_path_factory.mktemp("made") / "small"
    path.write_bytes(TEXT)
    entry = Entry("small", 3, 5, 2, "binary/small.bz2", checksum(read_libsvm(path, 5)))
    monkeypatch.setitem(CATALOGUE, "small", entry)
    monkeypatch.delenv("TURNOUT_DATA", raising=False)


SMALL = "/datasets/binary/small.bz2"


def test_a_good_file_is_kept_as_it_came_and_loads(site, small, tmp_path):
    site.serve(SMALL, bz2.compress(TEXT))
    folder = tmp_path / "new" / "folder"
    path = fetch("small", folder, site.url)
    assert path == folder / "small.bz2" and path.read_bytes() == bz2.compress(TEXT)
    assert [file.name for file in folder.iterdir()] == ["small.bz2"]
    data = load("small", folder)
    assert data.name == "small" and data.features.shape == (3, 5) and data.labels.tolist() == [1, -1, 1]
    assert site.asked == [SMALL]


def test_spelling_and_order_of_rows_do_not_matter(site, small, tmp_path):
    site.serve(SMALL, bz2.compress(b"# made\n-1.0 2:1e0\n+1 1:.5 2:0 3:2.0\r\n+1 4:-1\n"))
    assert fetch("small", tmp_path, site.url.rstrip("/")).exists()


WHOLE = bz2.compress(TEXT)
BAD = {
    "another value": (dict(content=bz2.compress(TEXT.replace(b"0.5", b"0.6"))), "checksum differs"),
    "a row less": (dict(content=bz2.compress(TEXT[:-7])), "checksum differs"),
    "not compressed": (dict(content=TEXT), "cannot be decompressed"),
    "a web page": (dict(content=bz2.compress(b"<html>\n")), "line 1: the label"),
    "cut inside the file": (dict(content=WHOLE[:-9]), "cannot be decompressed"),
    "cut on the way": (dict(content=WHOLE[:20], length=len(WHOLE)), "cannot be fetched"),
    "nothing": (dict(content=b""), "not the data set small"),
    "not found": (dict(content=b"", status=404), "HTTP 404"),
    "server error": (dict(content=b"", status=500), "HTTP 500"),
}


@pytest.mark.parametrize("answer, message", BAD.values(), ids=BAD)
@pytest.mark.parametrize("existing", [None, WHOLE], ids=["first", "again"])
def test_a_bad_answer_is_a_user_error_and_leaves_the_folder_alone(site, small, tmp_path, answer, message, existing):
    site.serve(SMALL, **answer)
    (tmp_path / "other").write_text("kept")
    if existing:
        (tmp_path / "small.bz2").write_bytes(existing)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(UserError, match=message) as caught:
        fetch("small", tmp_path, site.url)
    assert "small" in str(caught.value) and site.url in str(caught.value) and ".partial" not in str(caught.value)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_site_that_does_not_answer_is_a_user_error(small, tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        closed = f"http://127.0.0.1:{server.server_port}/"
    for url in (closed, "no-such-scheme://there/", "not a url"):
        with pytest.raises(UserError, match="cannot be fetched"):
            fetch("small", tmp_path, url)
    assert not list(tmp_path.iterdir())


def test_a_site_that_stalls_is_given_up(small, tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "TIMEOUT", 0.2)
    # The kernel accepts the connection, and nobody ever answers it.
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as silent:
        with pytest.raises(UserError, match="cannot be fetched.*timed out"):
            fetch("small", tmp_path, f"http://127.0.0.1:{silent.server_port}/")


def test_a_folder_that_cannot_be_written_is_a_user_error(site, small, tmp_path):
    site.serve(SMALL, WHOLE)
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UserError, match="cannot be written.*choose another folder"):
        fetch("small", tmp_path / "file", site.url)
    assert (tmp_path / "file").read_text() == "kept"


def test_names_that_cannot_be_fetched_say_why(tmp_path):
    with pytest.raises(UserError, match="comes with scikit-learn"):
        fetch("iris", tmp_path)
    with pytest.raises(UserError, match="not on the LIBSVM site: put train-images"):
        fetch("mnist", tmp_path)
    with pytest.raises(UserError, match="did you mean"):
        fetch("mushroms", tmp_path)


def test_without_a_known_checksum_the_shape_is_verified(site, tmp_path, monkeypatch):
    """As for rcv1_train.binary, whose format is that of this file: labels of -1 and 1, rows of length 1."""
    text = b"-1 1:0.6 3:0.8\n1 2:1\n1 1:0.8 5:-0.6\n"
    monkeypatch.setitem(CATALOGUE, "rcv", Entry("rcv", 3, 5, 2, "binary/rcv.bz2"))
    site.serve("/datasets/binary/rcv.bz2", bz2.compress(text))
    data = load("rcv", fetch("rcv", tmp_path, site.url).parent)
    rows, scaled = (csr_array(d.features).toarray() for d in (data, data.normalized("rows")))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    np.testing.assert_allclose(scaled, rows, rtol=1e-15)
    problem = Multinomial.of(data, ContiguousSplit(3).split(data), mu=1e-3, intercept=False)
    assert problem.start(jax.random.key(0))["weight"].shape == (5, 2) and problem.rows[1].tolist() == [0, 1, 1]
    for wrong in (text[:-1] + b"1 1:1\n1 2:1\n", text[:-20], text.replace(b"5:", b"6:")):
        site.serve("/datasets/binary/rcv.bz2", bz2.compress(wrong))
        with pytest.raises(UserError, match="not the data set rcv"):
            fetch("rcv", tmp_path, site.url)
