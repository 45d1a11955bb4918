"""The Helm chart, through Helm's own engine and the schemas of Kubernetes."""

import json
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import pytest
from kubernetes_validate.utils import all_versions
from typer.testing import CliRunner

from collector.cli import app
from tests.helm_chart import CHART, HELM, examples, objects, read_yaml, rendered, value_rows

ROOT = HELM.parent
VERSIONS = list(dict.fromkeys(all_versions()))[-3:]
OF_OPERATORS = {"ServiceMonitor", "PrometheusRule", "ScaledObject"}
KAFKA = {"brokers": ["k:9092"]}
SHARED = {"journal": {"kafka": KAFKA}, "store": {"url": "http://ch:8123/db"}}
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
CASES = {"defaults": {}, "everything": EVERYTHING, **examples()}


def _of(kind: str, values: dict[str, Any], **release: Any) -> list[dict[str, Any]]:
    return [one for one in objects(rendered(values, **release)) if one["kind"] == kind]


def _pod(values: dict[str, Any]) -> dict[str, Any]:
    (stateful_set,) = _of("StatefulSet", values)
    spec: dict[str, Any] = stateful_set["spec"]["template"]["spec"]
    return spec


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


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"persistence": {"size": "a lot"}}, "at '/persistence/size'"),
        ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy'"),
        ({"config": {"judge": {"modell": "x"}}}, "at '/config/judge': .*'modell' not allowed"),
        ({"config": {"sampling": {"rate": 2}}}, "at '/config/sampling/rate': maximum"),
        ({"config": {"listen": {}}}, "'listen' not allowed"),
        ({"config": {"data_dir": "/x"}}, "'data_dir' not allowed"),
        ({"config": {"store": {"url": "chdb:///x"}}}, "at '/config/store/url'"),
        ({"config": {"store": {"url": "https://u:pw@h/d"}}}, "at '/config/store/url'"),
        ({"config": {"judge": {"openai": {"base_url": "https://u:pw@h"}}}}, "base_url"),
        ({"secretEnv": {"KEY": "sk-123"}}, "at '/secretEnv/KEY': got string, want object"),
        ({"secretEnv": {"a b": {"name": "n", "key": "k"}}}, "propertyName 'a b'|'a b'"),
        ({"keda": {"prometheus": "http://u:pw@p"}}, "at '/keda/prometheus'"),
        ({"replicas": 2}, "set config.journal.kafka and config.store.url"),
        ({"replicas": 2, "config": {"journal": {"kafka": KAFKA}}}, "replicas: more than one"),
        ({"keda": {"enabled": True}}, "replicas: more than one"),
        (
            {"replicas": 2, "config": {**SHARED, "sampling": {"review_per_day": 5}}},
            "config.sampling.review_per_day: each of several",
        ),
        (
            {"config": SHARED, "autoscaling": {"enabled": True, "maxReplicas": 13}},
            "autoscaling.maxReplicas: only 12 pods get work",
        ),
        (
            {"config": SHARED, "autoscaling": {"enabled": True, "minReplicas": 9}},
            "autoscaling.minReplicas: is above",
        ),
        ({"config": SHARED, "keda": {"enabled": True}}, "keda.prometheus: needed"),
        (
            {"config": SHARED, "keda": {"enabled": True}, "autoscaling": {"enabled": True}},
            "keda.enabled: autoscaling.enabled sets the number of pods too",
        ),
        (
            {"config": {"judge": {"engine": "openai"}}},
            r"secretEnv: config.judge.openai.api_key_env names OPENAI_API_KEY; add OPENAI_API_KEY",
        ),
        (
            {"config": {"receive": {"ingest_token_env": "TOKEN"}}},
            "secretEnv: config.receive.ingest_token_env names TOKEN",
        ),
        (
            {
                "config": {
                    "judge": {
                        "engine": "openai",
                        "openai": {"endpoints": [{"base_url": "http://a", "api_key_env": "A"}]},
                    }
                }
            },
            "config.judge.openai.endpoints.0.api_key_env names A",
        ),
    ],
)
def test_nonsense_is_refused_by_its_key(values: dict[str, Any], told: str) -> None:
    with pytest.raises(helm_python.HelmError, match=told):
        rendered(values)


@pytest.mark.parametrize("name", CASES)
def test_secrets_come_by_reference_only(name: str) -> None:
    made = objects(rendered(CASES[name]))
    assert not [one for one in made if one["kind"] == "Secret"]
    pods = [
        one["spec"]["template"]["spec"] for one in made if one["kind"] in ("StatefulSet", "Job")
    ]
    for pod in pods:
        given = {one["name"]: one for one in pod["containers"][0].get("env", [])}
        assert given == {
            name: {"name": name, "valueFrom": {"secretKeyRef": reference}}
            for name, reference in CASES[name].get("secretEnv", {}).items()
        }


@pytest.mark.parametrize("name", CASES)
def test_the_program_accepts_the_configuration(name: str, tmp_path: Path) -> None:
    path = tmp_path / "groundwatch.yaml"
    path.write_text(_config(CASES[name]))
    secrets = dict.fromkeys(CASES[name].get("secretEnv", {}), "hunter2")
    result = CliRunner().invoke(app, ["check-config", "-c", str(path)], env=secrets)
    assert result.exit_code == 0, result.output
    config = json.loads(result.output)["config"]
    assert config["data_dir"] == "/var/lib/groundwatch"
    assert config["listen"]["otlp_http"] == "0.0.0.0:4318"
    assert "hunter2" not in result.output


def test_large_numbers_and_nulls_reach_the_program(tmp_path: Path) -> None:
    path = tmp_path / "groundwatch.yaml"
    openai = {"api_key_env": None, "base_url": "http://vllm:8000/v1"}
    values = {
        "journal": {"max_bytes": 8_589_934_593},
        "judge": {"engine": "openai", "openai": openai},
    }
    path.write_text(_config({"config": values}))
    result = CliRunner().invoke(app, ["check-config", "-c", str(path)], env={})
    config = json.loads(result.output)["config"]
    assert config["journal"]["max_bytes"] == 8_589_934_593
    assert config["judge"]["openai"]["api_key_env"] is None


@pytest.mark.parametrize("name", CASES)
def test_an_upgrade_changes_nothing_that_kubernetes_holds_fixed(name: str) -> None:
    def fixed(one: dict[str, Any]) -> dict[str, Any]:
        spec = one["spec"]
        return {key: value for key, value in spec.items() if key not in _MAY_CHANGE}

    before = _of("StatefulSet", CASES[name], version="0.1.0")
    after = _of("StatefulSet", CASES[name], version="9.9.9", is_upgrade=True, is_install=False)
    assert before != after  # the image at least
    assert list(map(fixed, before)) == list(map(fixed, after))


_MAY_CHANGE = {
    # kubernetes.io/docs/concepts/workloads/controllers/statefulset: all other fields are fixed.
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
}


@pytest.mark.parametrize("name", CASES)
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
    for one in (one for one in made if one["kind"] in ("StatefulSet", "Job")):
        pod = one["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    mounts = {mount["mountPath"] for mount in _pod(CASES[name])["containers"][0]["volumeMounts"]}
    assert {"/tmp", "/var/lib/groundwatch"} <= mounts


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


@pytest.mark.parametrize("length", [1, 53])
def test_names_fit_for_any_release(length: int) -> None:
    # Helm allows 53 characters; Kubernetes puts a hash of 11 behind a StatefulSet's name.
    made = objects(rendered(EVERYTHING, name="r" * length))
    names = [(one["kind"], one["metadata"]["name"]) for one in made]
    assert len(set(names)) == len(names)
    assert all(len(name) + 11 * (kind == "StatefulSet") <= 63 for kind, name in names)


def test_every_value_is_described() -> None:
    described = {key for key, _, _ in value_rows()}

    def bare(values: dict[str, Any], prefix: str = "") -> list[str]:
        keys = [(f"{prefix}{key}", value) for key, value in values.items()]
        open_keys = [(key, value) for key, value in keys if key not in described]
        return [
            name
            for key, value in open_keys
            for name in (bare(value, f"{key}.") if isinstance(value, dict) else [key])
        ]

    assert bare(read_yaml((CHART / "values.yaml").read_text())) == []
    assert "secretEnv" in described
