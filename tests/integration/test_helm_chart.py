"""The Helm chart, through Helm's own engine and the schemas of Kubernetes."""

import json
import subprocess
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import pytest
from kubernetes_validate.utils import all_versions
from typer.testing import CliRunner

from collector.cli import app
from dashboards.review.login import password_hash
from tests.helm_chart import CHART, HELM, examples, objects, read_yaml, rendered

ROOT = HELM.parent
VERSIONS = list(dict.fromkeys(all_versions()))[-3:]
OF_OPERATORS = {"ServiceMonitor", "PrometheusRule", "ScaledObject"}
SHARED = {
    "journal": {"kafka": {"brokers": ["k:9092"]}},
    "store": {"url": "http://ch:8123/db"},
}
EVERYTHING: dict[str, Any] = {
    **examples()["several-pods"],
    "image": {"pullSecrets": ["registry"]},
    "service": {"review": True, "annotations": {"a": "b"}, "type": "LoadBalancer"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "p"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "p"}},
    "dashboards": {"enabled": True, "annotations": {"grafana_folder": "RAG"}},
    "networkPolicy": {
        key: [{"namespaceSelector": {"matchLabels": {"team": key}}}]
        for key in ("senders", "scrapers", "reviewers")
    },
    "podLabels": {"team": "rag"},
    "podAnnotations": {"a": "b"},
    "priorityClassName": "high",
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "rag", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {}},
    "persistence": {"storageClass": "fast"},
}
SPREAD: dict[str, Any] = {
    key: value for key, value in (EVERYTHING | examples()["roles"]).items() if key != "autoscaling"
}
BEFORE: dict[str, Any] = read_yaml((ROOT / "tests/data/helm-0.1.0.yaml").read_text())
CASES = {"defaults": {}, "everything": EVERYTHING, "spread": SPREAD, **examples()}
WORKLOADS = ("StatefulSet", "Deployment")


def _of(kind: str, values: dict[str, Any], **release: Any) -> list[dict[str, Any]]:
    return [one for one in objects(rendered(values, **release)) if one["kind"] == kind]


def _config(values: dict[str, Any]) -> str:
    text: str = _of("ConfigMap", values)[0]["data"]["groundwatch.yaml"]
    return text


@pytest.mark.parametrize("name", CASES)
def test_lint_finds_nothing_to_warn_of(name: str) -> None:
    found = helm_python.lint(CHART, CASES[name], strict=True)
    assert found["errors"] == []
    assert [m for m in found["messages"] if m["error"] != "icon is recommended"] == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", CASES)
def test_all_objects_are_valid_for_kubernetes(name: str, version: str) -> None:
    made = objects(rendered(CASES[name]))
    checked = [one for one in made if one["kind"] not in OF_OPERATORS]
    assert {"StatefulSet", "Service", "ConfigMap"} <= {one["kind"] for one in checked}
    for one in checked:
        kubernetes_validate.validate(one, version, strict=True)


def test_an_object_that_kubernetes_would_refuse_is_noticed() -> None:
    (stateful_set,) = _of("StatefulSet", {})
    del stateful_set["spec"]["selector"]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(stateful_set, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("name", CASES)
def test_secrets_come_by_reference_only(name: str) -> None:
    made = objects(rendered(CASES[name]))
    assert not [one for one in made if one["kind"] == "Secret"]
    pods = [one["spec"]["template"]["spec"] for one in made if one["kind"] in (*WORKLOADS, "Job")]
    given = CASES[name].get("secretEnv", {})
    for pod in pods:
        env = {one["name"]: one for one in pod["containers"][0].get("env", [])}
        plain = CASES[name].get("env", {})
        assert env == {
            **{key: {"name": key, "value": value} for key, value in plain.items()},
            **{k: {"name": k, "valueFrom": {"secretKeyRef": ref}} for k, ref in given.items()},
        }


@pytest.mark.parametrize("name", CASES)
def test_the_program_accepts_the_configuration(name: str, tmp_path: Path) -> None:
    path = tmp_path / "groundwatch.yaml"
    path.write_text(_config(CASES[name]))
    secrets = dict.fromkeys(CASES[name].get("secretEnv", {}), "hunter2")
    if "REVIEWERS" in secrets:
        secrets["REVIEWERS"] = f"Ada: {password_hash('hunter2')}"
    result = CliRunner().invoke(app, ["check-config", "-c", str(path)], env=secrets)
    assert result.exit_code == 0, result.output
    config = json.loads(result.output)["config"]
    assert config["data_dir"] == "/var/lib/groundwatch"
    assert config["listen"]["otlp_http"] == "0.0.0.0:4318"
    assert "hunter2" not in result.output


@pytest.mark.parametrize("name", CASES)
def test_an_upgrade_changes_nothing_that_kubernetes_holds_fixed(name: str) -> None:
    before = _workloads(objects(rendered(CASES[name], version="0.1.0")))
    after = _workloads(
        objects(rendered(CASES[name], version="9.9.9", is_upgrade=True, is_install=False))
    )
    assert before != after  # the image at least
    assert list(map(_fixed, before)) == list(map(_fixed, after))


@pytest.mark.parametrize("name", BEFORE)
def test_an_upgrade_from_the_version_before_renders_and_keeps_what_is_fixed(name: str) -> None:
    before = BEFORE[name]
    made = objects(rendered(before["values"], is_upgrade=True, is_install=False))
    now = {(one["kind"], one["metadata"]["name"]): one for one in made}
    assert set(now) == {(one["kind"], one["name"]) for one in before["objects"]}
    for old in before["objects"]:
        new = now[old["kind"], old["name"]]
        for key, value in old.get("fixed", {}).items():
            assert new["spec"][key] == value
        if old["kind"] == "StatefulSet":
            assert _fixed(new) == {"apps/v1": "StatefulSet", **old["fixed"]}


def _workloads(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in made if one["kind"] in WORKLOADS]


def _fixed(one: dict[str, Any]) -> dict[str, Any]:
    may_change = _MAY_CHANGE | ({"strategy"} if one["kind"] == "Deployment" else set())
    spec = {key: value for key, value in one["spec"].items() if key not in may_change}
    return {one["apiVersion"]: one["kind"], **spec}


_MAY_CHANGE = {
    # kubernetes.io/docs/concepts/workloads/controllers/statefulset: all other fields are fixed.
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
}


SINGLE = [name for name, values in CASES.items() if values.get("mode") != "roles"]


@pytest.mark.parametrize("name", SINGLE)
def test_selectors_find_the_pods_and_only_them(name: str) -> None:
    made = objects(rendered(CASES[name]))
    by_kind = {one["kind"]: one for one in made}
    labels = by_kind["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()
    services = [one for one in made if one["kind"] == "Service"]
    selectors = [one["spec"]["selector"] for one in services]
    selectors += [by_kind["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]]
    selectors += [by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]]
    for selector in selectors:
        assert selector.items() <= labels
        if "Job" in by_kind:
            job = by_kind["Job"]["spec"]["template"]["metadata"]["labels"].items()
            assert not selector.items() <= job
    assert by_kind["StatefulSet"]["spec"]["serviceName"] in {
        s["metadata"]["name"] for s in services
    }


def test_prometheus_scrapes_each_pod_once_and_keeps_the_label_service() -> None:
    made = objects(rendered(EVERYTHING))
    (monitor,) = (one for one in made if one["kind"] == "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [one for one in made if one["kind"] == "Service"]
    (scraped,) = (one for one in services if wanted <= one["metadata"]["labels"].items())
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in scraped["spec"]["ports"]}
    assert endpoint["honorLabels"] is True
    # Prometheus Operator names the job after the Service; KEDA asks for it.
    (scaled,) = _of("ScaledObject", examples()["keda"])
    (trigger,) = scaled["spec"]["triggers"]
    assert f'job="{scraped["metadata"]["name"]}"' in trigger["metadata"]["query"]
    assert 'namespace="rag"' in trigger["metadata"]["query"]


def test_rules_and_dashboards_are_those_of_the_project() -> None:
    made = objects(rendered(EVERYTHING))
    (rule,) = (one for one in made if one["kind"] == "PrometheusRule")
    groups = [
        group
        for path in sorted((ROOT / "dashboards/rules").glob("*.yml"))
        for group in read_yaml(path.read_text())["groups"]
    ]
    assert rule["spec"]["groups"] == groups
    data = {k: v for one in made if one["kind"] == "ConfigMap" for k, v in one["data"].items()}
    files = {path.name: path.read_text() for path in ROOT.glob("dashboards/grafana/json/*.json")}
    assert {name: text for name, text in data.items() if name.endswith(".json")} == files


@pytest.mark.parametrize("name", CASES)
def test_pods_run_without_rights_on_a_read_only_root(name: str) -> None:
    made = objects(rendered(CASES[name]))
    for one in (one for one in made if one["kind"] in (*WORKLOADS, "Job")):
        pod = one["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        kept = [claim["metadata"] for claim in one["spec"].get("volumeClaimTemplates", [])]
        volumes = {volume["name"] for volume in (*pod["volumes"], *kept)}
        assert set(mounts.values()) <= volumes
        if one["kind"] != "Job":
            assert {"/tmp", "/var/lib/groundwatch"} <= set(mounts)


def test_the_review_page_is_closed_unless_it_is_opened() -> None:
    def opened(values: dict[str, Any]) -> list[str]:
        made = objects(rendered(values))
        ports = [p for one in made if one["kind"] == "Service" for p in one["spec"]["ports"]]
        (policy,) = (one for one in made if one["kind"] == "NetworkPolicy")
        named = [p["port"] for rule in policy["spec"]["ingress"] for p in rule["ports"]]
        return [name for name in [*(p["name"] for p in ports), *named] if name == "review"]

    assert opened({}) == []
    assert len(opened(EVERYTHING)) == 2


def test_a_changed_configuration_restarts_the_pods() -> None:
    def marks(values: dict[str, Any]) -> Any:
        return _of("StatefulSet", values)[0]["spec"]["template"]["metadata"]["annotations"]

    assert marks({}) == marks({"replicas": 1})
    assert marks({}) != marks({"config": {"sampling": {"rate": 0.5}}})


def test_tables_are_migrated_before_pods_start_where_there_is_a_server() -> None:
    assert _of("Job", {}) == []
    made = _of("Job", {"config": SHARED})
    assert [one["spec"]["template"]["spec"]["containers"][0]["args"][0] for one in made] == [
        "migrate"
    ]
    hooks = made[0]["metadata"]["annotations"]
    assert hooks["helm.sh/hook"] == "pre-install,pre-upgrade"


@pytest.mark.prometheus
def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    (rule,) = _of("PrometheusRule", EVERYTHING)
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps(rule["spec"]))  # JSON is YAML
    command = ["promtool", "check", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    path.write_text(path.read_text().replace("groundwatch_faithfulness", "(groundwatch_"))
    assert subprocess.run(command, capture_output=True, check=False).returncode


@pytest.mark.parametrize("values", [EVERYTHING, SPREAD], ids=["everything", "spread"])
@pytest.mark.parametrize("name", ["r", "r" * 53, "groundwatch" + "r" * 42])
def test_names_fit_for_any_release(name: str, values: dict[str, Any]) -> None:
    # Helm allows 53 characters; Kubernetes puts a hash of 11 behind a StatefulSet's name.
    made = objects(rendered(values, name=name))
    names = [(one["kind"], one["metadata"]["name"]) for one in made]
    assert len(set(names)) == len(names)
    assert all(len(name) + 11 * (kind == "StatefulSet") <= 63 for kind, name in names)
