"""The files of `packaging/`: every setting and port in them is one that the broker has, and their own checkers pass them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla.cli.commands.server import refuse_unbuilt
from ottla.config import BrokerConfig
from ottla.config.properties import environment_properties
from ottla.connect import WorkerConfig, WorkerMode

FOLDER = Path(__file__).resolve().parents[2] / "packaging"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yml").read_text())
BROKERS = {name: each for name, each in COMPOSE["services"].items() if name.startswith("broker")}
MANIFESTS = sorted((FOLDER / "kubernetes").rglob("*.yaml"))
DOCKERFILE = FOLDER / "image" / "Dockerfile"


def documents() -> dict[tuple[str, str], dict[str, Any]]:
    """Return every object of the manifests by kind and name."""
    found = [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text())]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


OBJECTS = documents()
POD = OBJECTS["StatefulSet", "ottla"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
PORTS = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}


def node(environment: dict[str, str]) -> BrokerConfig:
    """Read a node's settings, and refuse those that the broker would warn of or refuse.

    As a file's: of unknown variables in the environment the broker warns only where it knows a name that is nearly the same.
    """
    text = "\n".join(f"{name}={value}" for name, value in environment_properties(environment).items())
    config = BrokerConfig.load(text)
    refuse_unbuilt(config)
    assert not config.warnings
    return config


def image_settings() -> dict[str, str]:
    """Return the variables that the broker's image sets."""
    stage = DOCKERFILE.read_text().rpartition("\nFROM ")[2]
    return dict(re.findall(r"(KAFKA_\w+)=(\S+)", stage))


def pod_settings(number: int) -> dict[str, str]:
    """Return the variables of one pod, with those that its command makes of its name."""
    given: dict[str, str] = {each["name"]: each["value"] for each in CONTAINER["env"]}
    made = dict(re.findall(r'export (KAFKA_\w+)="(.*)"', CONTAINER["args"][0]))
    name = f"ottla-{number}"
    made = {key: text.replace("${HOSTNAME##*-}", str(number)).replace("$HOSTNAME", name) for key, text in made.items()}
    return given | made


def compose_settings(name: str) -> dict[str, str]:
    environment: dict[str, str] = BROKERS[name]["environment"]
    return image_settings() | environment


CLUSTERS = {
    "compose": [compose_settings(name) for name in BROKERS],
    "kubernetes": [image_settings() | pod_settings(number) for number in range(3)],
}


def test_the_image_serves_on_the_ports_that_it_exposes() -> None:
    config = node(image_settings())
    exposed = re.findall(r"EXPOSE (.*)", DOCKERFILE.read_text())[-1].split()
    served = [each.port for each in config.listeners] + [each.port for each in config.http_listeners]
    assert [str(each) for each in served] == exposed
    assert f"127.0.0.1:{config.http_listeners[0].port}/readyz" in DOCKERFILE.read_text()


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_clusters_nodes_agree_on_their_quorum(cluster: str) -> None:
    settings = CLUSTERS[cluster]
    configs = [node(each) for each in settings]
    assert len({each["CLUSTER_ID"] for each in settings}) == 1
    assert len({each["KAFKA_CONTROLLER_QUORUM_VOTERS"] for each in settings}) == 1
    voters = dict(each.split("@") for each in settings[0]["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(","))
    assert sorted(voters) == sorted(str(each.node_id) for each in configs)
    for config, environment in zip(configs, settings, strict=True):
        ports = {each.name: each.port for each in config.listeners}
        host, port = voters[str(config.node_id)].split(":")
        assert int(port) == ports["CONTROLLER"]
        advertised = environment["KAFKA_ADVERTISED_LISTENERS"].split(",")[0]
        assert advertised == f"PLAINTEXT://{host}:{ports['PLAINTEXT']}"
        assert config.settings.default_replication_factor == len(configs)


@pytest.mark.parametrize("name", BROKERS)
def test_compose_publishes_what_a_broker_advertises_outside(name: str) -> None:
    config = node(compose_settings(name))
    address, published, container = BROKERS[name]["ports"][0].rsplit(":", 2)
    assert int(container) == next(each.port for each in config.listeners if each.name == "OUTSIDE")
    assert address == "127.0.0.1"
    assert f"OUTSIDE://localhost:{published}" in BROKERS[name]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    host = BROKERS[name]["environment"]["KAFKA_ADVERTISED_LISTENERS"].partition("://")[2].partition(":")[0]
    assert host == name
    assert BROKERS[name]["volumes"][0].split(":")[1] == compose_settings(name)["KAFKA_LOG_DIRS"]


def test_the_worker_of_compose_knows_its_settings_and_the_brokers() -> None:
    text = (FOLDER / "image" / "worker.properties").read_text()
    given = dict(line.split("=", 1) for line in text.splitlines() if line and not line.startswith("#"))
    worker = COMPOSE["services"]["connect"]
    config = WorkerConfig.load(given, WorkerMode.DISTRIBUTED)
    assert [each.split(":")[0] for each in given["bootstrap.servers"].split(",")] == list(BROKERS)
    assert worker["ports"] == [f"127.0.0.1:8083:{given['listeners'].rpartition(':')[2]}"]
    assert f"EXPOSE {given['rest.advertised.port']}\n" in DOCKERFILE.read_text()
    assert not config.warnings


def test_the_ports_of_pods_and_services_are_those_that_are_served() -> None:
    config = node(pod_settings(0))
    served = {each.name: each.port for each in config.listeners}
    http = config.http_listeners[0].port
    assert {"kafka": served["PLAINTEXT"], "controller": served["CONTROLLER"], "http": http} == PORTS
    for (kind, _), each in OBJECTS.items():
        if kind == "Service" and each["spec"]["selector"] == {"app.kubernetes.io/name": "ottla"}:
            for port in each["spec"]["ports"]:
                assert PORTS[port["targetPort"]] == port["port"]


def test_probes_ask_for_what_is_meant_for_them() -> None:
    """What restarts a broker must not ask whether it serves: a broker that waits for others would never get there."""
    paths = {name: CONTAINER[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert {CONTAINER[name]["httpGet"]["port"] for name in paths} == {"http"}


def test_the_manifests_fit_each_other() -> None:
    spec = OBJECTS["StatefulSet", "ottla"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert ("Service", spec["serviceName"]) in OBJECTS
    assert spec["serviceName"] in pod_settings(0)["KAFKA_ADVERTISED_LISTENERS"]
    assert spec["selector"]["matchLabels"] == labels
    assert OBJECTS["PodDisruptionBudget", "ottla"]["spec"]["selector"]["matchLabels"] == labels
    (mount,) = CONTAINER["volumeMounts"]
    assert pod_settings(0)["KAFKA_LOG_DIRS"].startswith(mount["mountPath"] + "/")
    assert mount["name"] == spec["volumeClaimTemplates"][0]["metadata"]["name"]


def test_the_worker_of_kubernetes_knows_its_settings_and_may_make_its_executors() -> None:
    data = OBJECTS["ConfigMap", "ottla-connect"]["data"]
    given = dict(line.split("=", 1) for line in data["worker.properties"].splitlines() if line)
    assert not WorkerConfig.load(given, WorkerMode.DISTRIBUTED).warnings
    spec = OBJECTS["StatefulSet", "ottla-connect"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    (script,) = container["args"]
    added = dict(re.findall(r'echo "(\S+?)=(\S+)" >>', script))
    names = f"$HOSTNAME.{spec['serviceName']}"
    assert (added["spark.driver.host"], added["spark.kubernetes.driver.pod.name"]) == (names, "$HOSTNAME")
    assert added["rest.advertised.host.name"] == names
    assert OBJECTS["Service", spec["serviceName"]]["spec"]["clusterIP"] == "None"
    mounts = {each["mountPath"] for each in container["volumeMounts"]}
    assert given["spark.kubernetes.executor.podTemplateFile"].rpartition("/")[0] in mounts
    assert given["spark.kubernetes.executor.podTemplateFile"].rpartition("/")[2] in data
    assert given["spark.kubernetes.container.image"] == container["image"]
    assert [str(each["containerPort"]) for each in container["ports"]] == [given["listeners"].rpartition(":")[2]]
    binding = OBJECTS["RoleBinding", "ottla-connect"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": pod["serviceAccountName"]}]
    (rule,) = OBJECTS["Role", binding["roleRef"]["name"]]["rules"]
    assert {"pods", "configmaps"} <= set(rule["resources"]) and {"create", "delete", "watch"} <= set(rule["verbs"])
    assert given["bootstrap.servers"].split(":")[0] == OBJECTS["Service", "ottla"]["metadata"]["name"]


def test_the_units_settings_are_known() -> None:
    text = (FOLDER / "systemd" / "server.properties").read_text()
    config = BrokerConfig.load(text)
    unit = (FOLDER / "systemd" / "ottla.service").read_text()
    assert not config.warnings
    assert config.log_dirs[0].startswith("/var/lib/" + re.findall(r"^StateDirectory=(.*)$", unit, re.MULTILINE)[0])


def test_hadolint_passes_the_dockerfile() -> None:
    command: list[str | Path] = [Path(sys.executable).parent / "hadolint", DOCKERFILE]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_schemas_pass_the_manifests(manifest: Path) -> None:
    command: list[str | Path] = [Path(sys.executable).parent / "kubernetes-validate", "--strict", manifest]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_systemd_passes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (FOLDER / "systemd" / "ottla.service").read_text()
    # the file that it starts has to be there
    (tmp_path / "ottla.service").write_text(unit.replace("/opt/ottla/bin/ottla", sys.executable))
    found = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "ottla.service"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0 and not found.stderr, found.stderr


def test_the_version_of_the_image_is_ottlas() -> None:
    from ottla import __version__

    assert CONTAINER["image"] == f"ottla:{__version__}"
    (worker,) = OBJECTS["StatefulSet", "ottla-connect"]["spec"]["template"]["spec"]["containers"]
    assert worker["image"] == f"ottla-connect:{__version__}"
