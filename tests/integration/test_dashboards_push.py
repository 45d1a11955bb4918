"""`groundwatch dashboards push` with the real grafana-client, against Grafana's documented API."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import HTMLResponse

from dashboards import alert_rules
from dashboards.grafana.push import packaged_dashboards
from tests.conftest import ROOT
from tests.fakes.grafana_server import GrafanaServer
from tests.processes import free_port

pytestmark = pytest.mark.grafana
PYTHON = ROOT / ".venv-grafana" / "bin" / "python"
UIDS = [dashboard["uid"] for dashboard in packaged_dashboards()]
SOURCES = (
    *("--prometheus-url", "http://prometheus:9090"),
    *("--clickhouse-url", "https://reader@clickhouse.example.com/quality"),
    *("--clickhouse-password-env", "CLICKHOUSE_PASSWORD"),
)


@pytest.fixture
def grafana() -> Iterator[GrafanaServer]:
    with GrafanaServer() as server:
        yield server


def push(server: GrafanaServer, *options: str, token: str | None = None) -> Any:
    environ = {"GRAFANA_TOKEN": token or server.token, "CLICKHOUSE_PASSWORD": "secret-word"}
    return subprocess.run(
        [PYTHON, "-m", "collector", "dashboards", "push", "--url", server.url, *options],
        cwd=ROOT,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_grafana_client_is_no_part_of_the_agents_environment() -> None:
    assert importlib.util.find_spec("grafana_client") is None
    assert importlib.util.find_spec("niquests") is None


def test_all_is_made_once_and_a_second_push_writes_nothing(grafana: GrafanaServer) -> None:
    done = push(grafana, *SOURCES)
    assert done.returncode == 0, done.stderr
    assert sorted(grafana.dashboards) == UIDS
    assert set(grafana.folder_of.values()) == {"groundwatch"} == set(grafana.folders)
    assert set(grafana.sources) == {"groundwatch-prometheus", "groundwatch-clickhouse"}
    clickhouse = grafana.sources["groundwatch-clickhouse"]["jsonData"]
    assert clickhouse == {
        "host": "clickhouse.example.com",
        "port": 8443,
        "protocol": "http",
        "secure": True,
        "username": "reader",
        "defaultDatabase": "quality",
    }
    assert grafana.secrets["groundwatch-clickhouse"] == {"password": "secret-word"}
    assert "secret-word" not in done.stdout + done.stderr
    (group,) = grafana.groups.values()
    (rules,) = alert_rules.rules()["groups"]
    assert [r["title"] for r in group["rules"]] == [r["alert"] for r in rules["rules"]]
    assert all(len(rule["uid"]) <= 40 for rule in group["rules"])
    asked = {rule["data"][0]["datasourceUid"] for rule in group["rules"]}
    assert asked == {"groundwatch-prometheus"}
    grafana.writes.clear()
    again = push(grafana, *SOURCES)
    assert again.returncode == 0, again.stderr
    assert grafana.writes == []
    assert {line.split()[0] for line in again.stdout.splitlines()} == {"keep"}


def test_a_dry_run_shows_the_difference_and_writes_nothing(grafana: GrafanaServer) -> None:
    assert push(grafana, "--dry-run").stdout.splitlines() == [
        "create  folder groundwatch",
        *(f"create  dashboard {uid}" for uid in UIDS),
        "create  alert rules groundwatch-alerts",
    ]
    assert grafana.writes == []
    push(grafana)
    grafana.writes.clear()
    changed = grafana.dashboards["groundwatch-overview"]
    changed["panels"][1]["title"] = "Renamed by hand"
    changed["version"] = 5
    (group,) = grafana.groups.values()
    group["rules"][0]["for"] = "45m"
    shown = push(grafana, "--dry-run").stdout
    assert grafana.writes == []
    assert '-   "title": "Renamed by hand"' in shown
    assert '+   "title": "How faithful are the answers?"' in shown
    assert '-   "for": "45m"' in shown
    assert shown.count("update") == 2
    steps = json.loads(push(grafana, "--json").stdout)
    updated = [step["uid"] for step in steps if step["action"] == "update"]
    assert updated == ["groundwatch-overview", "groundwatch-alerts"]
    assert changed["uid"] in updated
    assert grafana.dashboards["groundwatch-overview"]["version"] == 6


def test_what_others_save_in_between_is_read_again(grafana: GrafanaServer) -> None:
    push(grafana)
    overview = grafana.dashboards["groundwatch-overview"]
    overview["title"] = "Renamed by hand"
    others = [2]

    def someone_else(method: str, path: str) -> None:
        if path.endswith("/dashboards/db") and others:
            grafana.dashboards["groundwatch-overview"]["version"] = others.pop()

    grafana.before_write = someone_else
    done = push(grafana)
    assert done.returncode == 0, done.stderr
    assert grafana.dashboards["groundwatch-overview"]["version"] == 3
    assert grafana.dashboards["groundwatch-overview"]["title"] == "groundwatch: Overview"


def test_someone_who_keeps_saving_wins_and_is_named(grafana: GrafanaServer) -> None:
    push(grafana)
    grafana.dashboards["groundwatch-overview"]["title"] = "Renamed by hand"

    def someone_else(method: str, path: str) -> None:
        grafana.dashboards["groundwatch-overview"]["version"] += 1

    grafana.before_write = someone_else
    done = push(grafana)
    assert done.returncode == 3
    assert "The dashboard has been changed by someone else" in done.stderr
    assert "try again when they are done" in done.stderr
    assert grafana.dashboards["groundwatch-overview"]["title"] == "Renamed by hand"


def test_a_dashboard_of_the_same_name_that_is_not_ours_is_left_alone(
    grafana: GrafanaServer,
) -> None:
    grafana.folders["groundwatch"] = {"uid": "groundwatch", "title": "groundwatch"}
    theirs = {"uid": "theirs", "title": "groundwatch: Overview", "version": 1}
    grafana.keep_dashboard(theirs, "groundwatch")
    done = push(grafana)
    assert done.returncode == 3
    assert "writing the dashboard groundwatch: Overview: status 412" in done.stderr
    assert "it is not ours, so it is not overwritten: rename or remove it" in done.stderr
    assert grafana.dashboards["theirs"]["title"] == "groundwatch: Overview"


def test_a_data_source_of_the_same_name_is_a_clear_error(grafana: GrafanaServer) -> None:
    grafana.sources["other"] = {"uid": "other", "name": "groundwatch Prometheus", "version": 1}
    done = push(grafana, "--prometheus-url", "http://prometheus:9090")
    assert done.returncode == 3
    assert "data source with the same name already exists" in done.stderr


def test_a_dashboard_that_was_moved_comes_back_to_its_folder(grafana: GrafanaServer) -> None:
    push(grafana)
    grafana.folder_of["groundwatch-signals"] = "elsewhere"
    done = push(grafana)
    assert "update  dashboard groundwatch-signals" in done.stdout
    assert grafana.folder_of["groundwatch-signals"] == "groundwatch"


def test_a_folder_that_vanishes_meanwhile_is_named(grafana: GrafanaServer) -> None:
    def someone_else(method: str, path: str) -> None:
        if path.endswith("/dashboards/db"):
            grafana.folders.clear()

    grafana.before_write = someone_else
    done = push(grafana)
    assert done.returncode == 3
    assert "writing the dashboard groundwatch: Golden set and releases: status 404" in done.stderr
    assert "folder not found" in done.stderr


@pytest.mark.parametrize(
    ("role", "token", "options", "said"),
    [
        ("Admin", "wrong", (), "the token is not accepted"),
        ("Viewer", None, (), "making the folder groundwatch: status 403"),
        ("Editor", None, SOURCES, "for data sources Admin"),
    ],
)
def test_a_token_that_may_not_is_told_what_it_needs(
    role: str, token: str | None, options: tuple[str, ...], said: str, grafana: GrafanaServer
) -> None:
    grafana.role = role
    done = push(grafana, *options, token=token)
    assert done.returncode == 3
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert grafana.token not in done.stdout + done.stderr
    assert grafana.dashboards == {}


def test_an_editor_may_push_all_but_data_sources(grafana: GrafanaServer) -> None:
    grafana.role = "Editor"
    assert push(grafana).returncode == 0
    assert sorted(grafana.dashboards) == UIDS


def test_a_grafana_below_a_path_is_found_there() -> None:
    with GrafanaServer(path="/grafana") as server:
        done = push(server)
        assert done.returncode == 0, done.stderr
        assert sorted(server.dashboards) == UIDS


def test_a_server_that_is_no_grafana_or_does_not_answer_is_named(grafana: GrafanaServer) -> None:
    grafana.always = HTMLResponse("<h1>Not found</h1>", 404)
    wrong = push(grafana)
    assert wrong.returncode == 3
    assert "is it the address of a Grafana?" in wrong.stderr
    grafana.always = HTMLResponse("<h1>Bad gateway</h1>", 502)
    assert "reading the folder groundwatch: status 502" in push(grafana).stderr
    grafana.url = f"http://127.0.0.1:{free_port()}"
    gone = push(grafana)
    assert gone.returncode == 3
    assert f"{grafana.url} does not answer" in gone.stderr
    assert "Traceback" not in wrong.stderr + gone.stderr


def test_a_missing_token_or_a_password_in_the_address_is_wrong_usage(
    grafana: GrafanaServer,
) -> None:
    none = push(grafana, "--token-env", "NO_SUCH_VARIABLE")
    assert (none.returncode, "NO_SUCH_VARIABLE is not set" in none.stderr) == (2, True)
    told = push(grafana, "--clickhouse-url", "http://reader:word@clickhouse/quality")
    assert (told.returncode, "--clickhouse-password-env" in told.stderr) == (2, True)
    assert grafana.writes == []


def test_without_grafana_client_it_says_where_to_install_it(
    grafana: GrafanaServer, tmp_path: Path
) -> None:
    (tmp_path / "grafana_client.py").write_text("raise ImportError")
    environ = {"GRAFANA_TOKEN": grafana.token, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [PYTHON, "-m", "collector", "dashboards", "push", "--url", grafana.url],
        cwd=ROOT,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "install groundwatch[grafana] into an environment of its own" in done.stderr
