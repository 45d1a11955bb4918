"""Pods of their own for each role, as the Helm chart makes them."""

import re
from pathlib import Path
from typing import Any

import pytest

from collector.agent.roles import ROLES, check_roles, roles_of
from collector.config import load
from tests.helm_chart import examples, objects, rendered

SHARED: dict[str, Any] = {
    "journal": {"kafka": {"brokers": ["k:9092"]}},
    "store": {"url": "http://ch:8123/db"},
}
PLAIN: dict[str, Any] = {"mode": "roles", "config": SHARED}
FULL = examples()["roles"]
COMPONENT = "app.kubernetes.io/component"


def _workloads(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the Deployments and StatefulSets by their role."""
    made = [
        one for one in objects(rendered(values)) if one["kind"] in ("Deployment", "StatefulSet")
    ]
    return {one["metadata"]["labels"][COMPONENT]: one for one in made}


def _of(kind: str, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    made = [one for one in objects(rendered(values)) if one["kind"] == kind]
    return {one["metadata"]["name"]: one for one in made}


def _container(workload: dict[str, Any]) -> dict[str, Any]:
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return dict(container)


def _labels(workload: dict[str, Any]) -> set[tuple[str, str]]:
    return set(workload["spec"]["template"]["metadata"]["labels"].items())


def test_each_role_runs_in_pods_of_its_own() -> None:
    made = _workloads(PLAIN)
    for role, workload in made.items():
        *run, last = _container(workload)["args"]
        assert run == ["run", "-c", "/etc/groundwatch/groundwatch.yaml", "--roles"]
        assert roles_of(last) == {role}
    assert set(made) == set(ROLES)


def test_one_pod_has_all_roles() -> None:
    (one,) = _of("StatefulSet", {}).values()
    assert _container(one)["args"] == ["run", "-c", "/etc/groundwatch/groundwatch.yaml"]
    assert one["spec"]["replicas"] == 1


def test_the_program_takes_each_role_with_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "groundwatch.yaml"
    path.write_text(_of("ConfigMap", PLAIN)["watch-groundwatch"]["data"]["groundwatch.yaml"])
    for workload in _workloads(PLAIN).values():
        check_roles(roles_of(_container(workload)["args"][-1]), load(path, {}).config)


def test_pods_listen_where_their_role_does_and_are_probed_there() -> None:
    ports = {
        role: {port["name"]: port["containerPort"] for port in _container(workload)["ports"]}
        for role, workload in _workloads(PLAIN).items()
    }
    metrics = {"metrics": 9464}
    assert ports == {
        "receiver": {"otlp-grpc": 4317, "otlp-http": 4318, **metrics},
        "processor": metrics,
        "judge": metrics,
        "reporter": metrics,
        "review": {"review": 8088, **metrics},
    }
    for workload in _workloads(PLAIN).values():
        probes = [
            _container(workload)[f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")
        ]
        assert {(p["httpGet"]["path"], p["httpGet"]["port"]) for p in probes} == {
            ("/healthz", "metrics")
        }


def test_what_only_a_pod_knows_is_kept_on_volumes() -> None:
    kept = {
        role: [claim["spec"]["resources"]["requests"]["storage"] for claim in claims]
        for role, workload in _workloads(PLAIN).items()
        if (claims := workload["spec"].get("volumeClaimTemplates"))
    }
    assert kept == {"processor": ["1Gi"], "judge": ["1Gi"]}
    unkept = _workloads(PLAIN | {"persistence": {"enabled": False}})
    for workload in unkept.values():
        assert "volumeClaimTemplates" not in workload["spec"]
        volumes = workload["spec"]["template"]["spec"]["volumes"]
        assert {"name": "data", "emptyDir": {}} in volumes


def test_each_role_has_its_own_number_and_resources() -> None:
    numbers = {role: one["spec"].get("replicas") for role, one in _workloads(PLAIN).items()}
    assert numbers == {"receiver": 2, "processor": 2, "judge": 2, "reporter": 2, "review": 1}
    own = {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}}
    changed = _workloads(PLAIN | {"roles": {"judge": {"replicas": 5, "resources": own}}})
    assert changed["judge"]["spec"]["replicas"] == 5
    assert _container(changed["judge"])["resources"]["requests"]["cpu"] == "2"
    assert _container(changed["processor"]) == _container(_workloads(PLAIN)["processor"])


def test_receivers_scale_by_cpu_processors_and_judges_by_their_lag() -> None:
    made = _workloads(FULL)
    scalers = _of("HorizontalPodAutoscaler", FULL) | _of("ScaledObject", FULL)
    for scaler in scalers.values():
        target = scaler["spec"]["scaleTargetRef"]
        workload = made[scaler["metadata"]["labels"][COMPONENT]]
        assert (target["kind"], target["name"]) == (workload["kind"], workload["metadata"]["name"])
    scaled = {scaler["metadata"]["labels"][COMPONENT] for scaler in scalers.values()}
    assert scaled == {"receiver", "processor", "judge"}
    # Else an upgrade would set the number back.
    assert {role for role, one in made.items() if "replicas" not in one["spec"]} == scaled
    asked = {
        name: one["spec"]["triggers"][0]["metadata"]["query"]
        for name, one in _of("ScaledObject", FULL).items()
    }
    assert {name: re.findall(r'topic=~"([^"]+)"', query) for name, query in asked.items()} == {
        "watch-groundwatch-processor": ["telemetry|signals|conversations"],
        "watch-groundwatch-judge": ["judge"],
    }


def test_keda_gets_nothing_but_texts() -> None:
    for scaled in _of("ScaledObject", FULL).values():
        (trigger,) = scaled["spec"]["triggers"]
        assert {type(value) for value in trigger["metadata"].values()} == {str}


def test_a_large_lag_stays_a_number() -> None:
    roles = {"judge": {"keda": {"enabled": True, "lagRecords": 5_000_000}}}
    values = PLAIN | {"roles": roles, "keda": {"prometheus": "http://p:9090"}}
    (scaled,) = _of("ScaledObject", values).values()
    assert scaled["spec"]["triggers"][0]["metadata"]["threshold"] == "5000000"


@pytest.mark.parametrize("values", [PLAIN, FULL], ids=["plain", "full"])
def test_selectors_find_the_pods_of_their_role_and_only_them(values: dict[str, Any]) -> None:
    made = _workloads(values)

    def chosen(selector: dict[str, str]) -> set[str]:
        return {role for role, one in made.items() if selector.items() <= _labels(one)}

    for role, workload in made.items():
        assert chosen(workload["spec"]["selector"]["matchLabels"]) == {role}
        spread = workload["spec"]["template"]["spec"]["topologySpreadConstraints"]
        assert [chosen(one["labelSelector"]["matchLabels"]) for one in spread] == [{role}, {role}]
    budgets = _of("PodDisruptionBudget", values).values()
    assert sorted(chosen(one["spec"]["selector"]["matchLabels"]) for one in budgets) == sorted(
        {role} for role in made
    )
    services = {
        name: chosen(one["spec"]["selector"]) for name, one in _of("Service", values).items()
    }
    review = {"watch-groundwatch-review": {"review"}} if values is FULL else {}
    assert services == {
        "watch-groundwatch": {"receiver"},
        "watch-groundwatch-pods": set(ROLES),
        **review,
    }
    (policy,) = _of("NetworkPolicy", values).values()
    assert chosen(policy["spec"]["podSelector"]["matchLabels"]) == set(ROLES)
    (job,) = _of("Job", values).values()
    labels = job["spec"]["template"]["metadata"]["labels"].items()
    for one in _of("Service", values).values():
        assert not one["spec"]["selector"].items() <= labels


def test_services_lead_to_ports_that_their_pods_have() -> None:
    made = _workloads(FULL)
    for service in _of("Service", FULL).values():
        for workload in made.values():
            if service["spec"]["selector"].items() <= _labels(workload):
                named = {port["name"] for port in _container(workload)["ports"]}
                assert {port["targetPort"] for port in service["spec"]["ports"]} <= named


def test_prometheus_scrapes_every_role_once() -> None:
    (monitor,) = _of("ServiceMonitor", FULL).values()
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = _of("Service", FULL).values()
    (scraped,) = (one for one in services if wanted <= one["metadata"]["labels"].items())
    for workload in _workloads(FULL).values():
        assert scraped["spec"]["selector"].items() <= _labels(workload)
    for scaled in _of("ScaledObject", FULL).values():
        query = scaled["spec"]["triggers"][0]["metadata"]["query"]
        assert f'job="{scraped["metadata"]["name"]}"' in query


def test_the_notes_say_what_is_open_and_how_to_look() -> None:
    def notes(values: dict[str, Any]) -> str:
        return rendered(values)["NOTES.txt"]

    assert "lets nobody in" in notes({"service": {"review": True}})
    assert "lets nobody in" not in notes(FULL)
    assert "port-forward deploy/watch-groundwatch-review 8088" in notes(FULL)
    assert "port-forward watch-groundwatch-0 8088" in notes({})
    assert "divide daily_budget_usd" in notes(FULL)
    assert "nobody reaches the review page" in notes({"service": {"review": True}})
    assert "nobody reaches the review page" not in notes(FULL)
