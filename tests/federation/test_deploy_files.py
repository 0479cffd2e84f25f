"""The files in `deploy`: what the manifest of Kubernetes runs is what the commands take, and it plays a run."""

import json
import re
import socket
from pathlib import Path

import pytest
import yaml

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'turnout[flower]'")

from tests.helpers.commands import start, turnout, wait_for
from turnout.cli import command_line
from turnout.io.ports import free_port

FOLDER = Path(__file__).parents[2] / "deploy"
IMAGE = "turnout:0.1.0"


@pytest.fixture(scope="module")
def items() -> dict[tuple[str, str], dict]:
    """The objects of the manifest by kind and name."""
    manifest = yaml.safe_load((FOLDER / "kubernetes.yaml").read_text())
    return {(item["kind"], item["metadata"]["name"]): item for item in manifest["items"]}


@pytest.fixture(scope="module")
def containers(items) -> dict[str, tuple[dict, dict]]:
    """The containers that run turnout, by name, with the Pods that have them."""
    pods = [item["spec"]["template"]["spec"] for (kind, _), item in items.items() if kind in ("Deployment", "Job", "StatefulSet")]
    found = [(one, pod) for pod in pods for one in (*pod.get("initContainers", ()), *pod["containers"]) if "args" in one]
    return {one["name"]: (one, pod) for one, pod in found}


def test_every_object_is_valid(items):
    validate = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate").validate
    for item in items.values():
        validate(item, "1.31", strict=True)


def test_the_commands_take_their_arguments_and_find_their_files(containers):
    assert {*containers} == {"superlink", "server", "status", "node"}
    for one, _ in containers.values():
        name, *words = [word.replace("$(CLIENT)", "1") for word in one["args"]]
        command_line().commands[name].make_context(name, [*words])
        mounts = {Path(mount["mountPath"]) for mount in one["volumeMounts"]}
        paths = [Path(found) for word in words for found in re.findall(r"(?:^|=)(/\S+)", word)]
        assert paths and all(mounts & {path, *path.parents} for path in paths)


def test_selectors_and_volumes_name_what_is_there(items, containers):
    parts = [item["spec"]["template"]["metadata"]["labels"] for item in items.values() if "template" in item.get("spec", ())]
    assert all(item["spec"]["selector"] in parts for (kind, _), item in items.items() if kind == "Service")
    assert items["StatefulSet", "node"]["spec"]["replicas"] == 2 and ("Service", "node") in items
    for one, pod in containers.values():
        volumes = {volume["name"]: volume for volume in pod["volumes"]} | {"states": {}}
        assert {mount["name"] for mount in one["volumeMounts"]} <= {*volumes}
        for volume in volumes.values():
            assert ("ConfigMap", volume.get("configMap", {}).get("name", "turnout-run")) in items


def test_nothing_runs_as_root_or_on_an_image_of_no_version(containers):
    for one, pod in containers.values():
        user = pod["securityContext"]
        assert user["runAsNonRoot"] and user["runAsUser"] > 0 and one["image"] == IMAGE
        assert one["securityContext"]["readOnlyRootFilesystem"] and not one["securityContext"]["allowPrivilegeEscalation"]
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    lines = (FOLDER / "Containerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert bases and all(re.fullmatch(r"\S+:\d+\.\d+\.\d+-\S+", base) for base in bases)
    assert [line for line in lines if line.startswith("USER ")] == [f"USER {user['runAsUser']}:{user['runAsGroup']}"]
    assert IMAGE in lines[0]


@pytest.mark.slow
def test_the_manifest_plays_a_run_and_all_lines_of_its_logs_are_json(items, containers, tmp_path):
    """Its processes on this machine, with folders in the place of volumes."""
    keys, port = tmp_path / "keys", free_port()
    assert turnout("certify", keys, "--host", "superlink", "--clients", 2)[0] == 0
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "run.toml").write_text(items["ConfigMap", "turnout-run"]["data"]["run.toml"])

    def run(name: str, *more, client: int = 0):
        words = [word.replace("superlink:9092", f"localhost:{port}") for word in containers[name][0]["args"]]
        words = [word.replace("$(CLIENT)", str(client)) for word in words]
        words = [re.sub(r"^(--\w+=)?(/.+)", rf"\g<1>{tmp_path}\g<2>", word) for word in words]
        words = [word.replace("/keys/node", f"/keys/node-{client}").replace("/states", f"/states-{client}") for word in words]
        given = {one["name"]: one["value"] for one in containers[name][0]["env"] if one["name"] == "TURNOUT_LOG_FORMAT"}
        return start(*words, *more, variables=given)

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    lasting = [run("superlink", "--port", port)]
    try:
        wait_for(lambda: listens() or lasting[0].poll() is not None)
        lasting += [run("node", client=client) for client in range(2)]
        server = run("server")
        _, told = server.communicate(timeout=300)
        assert server.returncode == 0, told
        refused = run("node", "--policy", tmp_path / "none")
        _, why = refused.communicate(timeout=300)
    finally:
        for process in reversed(lasting):
            process.terminate()
        logs = [process.communicate(timeout=60)[1] for process in lasting]
    assert json.loads((tmp_path / "results" / "run" / "status.json").read_text())["state"] == "finished"
    assert refused.returncode == 2 and json.loads(why)["level"] == "error"
    lines = [json.loads(line) for text in (*logs, told) for line in text.splitlines()]
    assert len(logs[0].splitlines()) > 3 and all({*line} >= {"time", "level", "message"} for line in lines)
