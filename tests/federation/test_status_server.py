"""The status of a run over HTTP: a page, JSON and metrics, for those who may read it, and nothing else."""

import json
import math
import ssl
import threading
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import contextmanager
from email.message import Message
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.browser import opened
from tests.helpers.commands import start, turnout, wait_for
from turnout.engines.flower import keys
from turnout.engines.flower.greeting import MemberStatus
from turnout.federation.metrics import exposition
from turnout.federation.status import FILE, STATUS, Status
from turnout.federation.status_server import HEADERS, status_server

HOSTILE = 'a "quoted" \\ name\n<script>document.title = "broken"</script>'
MEMBERS = [MemberStatus("north", "present", 1200, 1, {"not finite": 3, "too late": 1}), MemberStatus(HOSTILE, "left out")]
SHOWN = Status(
    "trial", 200, "running", round=20, members=MEMBERS, hubs=[MemberStatus("a hub", "absent", 2)],
    unusable_replies={"not finite": 3}, bytes_down=1500, bytes_up=700, epsilon=0.5, delta=1e-5,
)  # fmt: skip
PATHS = ("", "status.json", "metrics")


def publish(folder: Path, status: Status = SHOWN) -> None:
    (folder / FILE).write_bytes(STATUS.dump_json(status))


@contextmanager
def serving(folder: Path, key_folder: Path | None = None):
    """The address of a server of the status in `folder`, while it serves in a thread."""
    server, listening = status_server(folder, "127.0.0.1:0", key_folder)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive())
        yield f"{'http' if key_folder is None else 'https'}://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()


def fetched(url: str, authority: Path | None = None, method: str = "GET", **headers: str) -> tuple[int, Message, str]:
    """Status, headers and text of an answer."""
    trusted = None if authority is None else ssl.create_default_context(cafile=str(authority))
    request = urllib.request.Request(url, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30, context=trusted) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    publish(folder)
    return folder


@pytest.fixture(scope="module")
def key_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    keys.write_all(folder, ["lab.example.org"], [])
    return folder


@pytest.fixture(scope="module")
def local(folder):
    with serving(folder) as url:
        yield url


@pytest.fixture(scope="module")
def guarded(folder, key_folder):
    with serving(folder, key_folder) as url:
        yield url


def test_the_page_names_members_and_holds_no_script(local):
    code, headers, page = fetched(local)
    assert code == 200 and "http-equiv" in page and all(headers[name] == value for name, value in HEADERS.items())
    assert "<script" not in page and "&lt;script&gt;" in page and "200" in page and "north" in page


def test_the_json_is_the_status(local):
    assert STATUS.validate_json(fetched(f"{local}status.json")[2]) == SHOWN


def test_prometheus_reads_the_metrics(local):
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    code, headers, text = fetched(f"{local}metrics")
    assert code == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(parser.text_string_to_metric_families(text))
    found = {(one.name, *sorted(one.labels.values())): one.value for family in families for one in family.samples}
    assert found["turnout_round",] == 20 and found["turnout_state", "running"] == 1 == 1 + found["turnout_state", "waiting"]
    assert found["turnout_written_timestamp_seconds",] == SHOWN.written.timestamp()
    assert found["turnout_member_present", "0", "client", "north"] == 1
    assert found["turnout_member_present", "1", HOSTILE, "client"] == 0
    assert found["turnout_member_unusable_replies_total", "0", "client", "north", "too late"] == 1
    assert found["turnout_members", "absent", "hub"] == 1 and found["turnout_bytes_total", "up"] == 700
    assert found["turnout_privacy_epsilon", "1e-05"] == 0.5
    assert {family.name for family in families} == {
        line.split()[2].removesuffix("_total") for line in text.splitlines() if "TYPE" in line
    }


def test_an_infinite_epsilon_is_a_number_of_prometheus():
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    *_, last = parser.text_string_to_metric_families(exposition(Status("trial", 1, epsilon=math.inf, delta=0.1)))
    assert last.samples[0].value == math.inf


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_nothing_can_be_changed(local, path, method):
    assert fetched(local + path, method=method)[0] == 405


def test_nothing_else_is_served(local, folder):
    (folder / "model.safetensors").touch()
    assert {fetched(local + path)[0] for path in ("model.safetensors", "..%2F..", "docs", "openapi.json")} == {404}


def test_a_page_of_another_site_reads_nothing_by_a_name_for_this_machine(local):
    code, _, text = fetched(local, Host="evil.example.org")
    assert code == 400 and "trial" not in text


@pytest.mark.parametrize("path", PATHS)
def test_only_readers_with_the_token_see_it(guarded, key_folder, path):
    token, authority = keys.status_token(key_folder), key_folder / keys.AUTHORITY
    basic = b64encode(f"anybody:{token}".encode()).decode()
    for given in (f"Bearer {token}", f"Basic {basic}"):
        assert fetched(guarded + path, authority, Authorization=given)[0] == 200
    secret = (key_folder / keys.SECRET).read_text()
    wrong = ("", "Bearer ", f"Bearer {token}x", f"Bearer {secret}", "Basic ????", "Basic " + b64encode(token.encode()).decode())
    for given in wrong:
        code, headers, text = fetched(guarded + path, authority, Authorization=given)
        assert code == 401 and headers["WWW-Authenticate"].startswith("Basic") and "trial" not in text
    assert fetched(f"{guarded}{path}?token={token}", authority)[0] == 401


def test_the_token_is_the_owners_and_stays_the_same(key_folder):
    path = key_folder / keys.STATUS_TOKEN
    assert path.stat().st_mode & 0o777 == 0o600 and keys.status_token(key_folder) == path.read_text()
    assert path.read_text() != (key_folder / keys.SECRET).read_text()


def test_a_server_that_has_not_begun_is_waited_for(tmp_path):
    with serving(tmp_path) as url:
        answers = {path: fetched(url + path) for path in PATHS}
        assert {code for code, *_ in answers.values()} == {503} and "holds no run of a server" in answers["metrics"][2]
        publish(tmp_path)
        assert {fetched(url + path)[0] for path in PATHS} == {200}


@pytest.mark.parametrize(
    "address, told",
    [
        ("0.0.0.0:0", "with --keys"),
        ("127.0.0.1", "name an address and a port"),
        ("127.0.0.1:99999", "name an address and a port"),
        ("192.0.2.1:0", "nothing can listen there"),
    ],
)
def test_an_address_that_cannot_be_is_a_sentence(folder, address, told):
    code, out, wrong = turnout("status", folder, "--serve", address)
    assert (code, out) == (2, "") and told in wrong and wrong.count("\n") == 1


@pytest.mark.longer
def test_a_browser_shows_the_page_which_loads_itself_again(tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    publish(tmp_path)
    process = start("status", tmp_path, "--serve", "127.0.0.1:0", variables={"PYTHONUNBUFFERED": "1"})
    try:
        url = process.stdout.readline().strip()
        for browser in opened(tmp_path / "profile"):
            browser.get(url)
            assert [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, "td")][6:9] == ["0", "north", "present"]
            assert browser.title == "trial: running"
            publish(tmp_path, Status("trial", 200, "finished", round=200))
            WebDriverWait(browser, 30).until(lambda b: b.title == "trial: finished")
            assert not browser.get_log("browser")
            requests = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
            asked = {each["params"]["request"]["url"] for each in requests if each["method"] == "Network.requestWillBeSent"}
            assert {one for one in asked if one.startswith("http")} == {url}
    finally:
        process.terminate()
        process.communicate(timeout=30)
