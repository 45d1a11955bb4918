"""Commands that bring dashboards and alert rules to Grafana, Prometheus and Kubernetes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from pydantic import SecretStr

from collector.errors import UsageError
from collector.options import JsonOption, print_json, secret_of

dashboards_app = typer.Typer(
    help="Grafana dashboards and alert rules: to a server, or as files.", no_args_is_help=True
)

PrometheusUidOption = Annotated[
    str, typer.Option(help="uid of the Prometheus data source that alert rules ask.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(dashboards_app, name="dashboards")


@dashboards_app.command(
    "push",
    epilog="Example: groundwatch dashboards push --url https://grafana.example.com --dry-run",
)
def push(
    url: Annotated[str, typer.Option(help="Address of Grafana, with the path it is served under.")],
    token_env: Annotated[
        str, typer.Option(help="Environment variable with the token of a service account.")
    ] = "GRAFANA_TOKEN",  # noqa: S107 - the name of a variable
    prometheus_uid: PrometheusUidOption = "groundwatch-prometheus",
    prometheus_url: Annotated[
        str | None, typer.Option(help="Address of Prometheus: make a data source for it.")
    ] = None,
    clickhouse_url: Annotated[
        str | None,
        typer.Option(help="http(s)://user@host:port/database of ClickHouse: make a data source."),
    ] = None,
    clickhouse_password_env: Annotated[
        str | None, typer.Option(help="Environment variable with the password of that user.")
    ] = None,
    *,
    alerts: Annotated[bool, typer.Option(help="Push alert rules too.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring folder, data sources, dashboards and alert rules of a Grafana up to this version."""
    from dashboards.grafana import push as pushing
    from sinks.grafana import GrafanaServer

    sources = []
    if prometheus_url is not None:
        sources.append(_prometheus(prometheus_uid, prometheus_url))
    if clickhouse_url is not None:
        sources.append(
            _clickhouse(
                clickhouse_url, secret_of(clickhouse_password_env, "--clickhouse-password-env")
            )
        )
    wanted = pushing.Wanted(
        pushing.packaged_dashboards(), sources, prometheus_uid if alerts else None
    )
    grafana = GrafanaServer(url, secret_of(token_env))
    steps = []
    for step in pushing.push(grafana, wanted, dry_run=dry_run):
        steps.append(step)
        if not as_json:
            print("\n".join([f"{step.action:6}  {step.kind} {step.uid}", *step.diff]))
    if as_json:
        print_json([step._asdict() for step in steps])


@dashboards_app.command("files", epilog="Example: groundwatch dashboards files grafana-files")
def files(
    folder: Annotated[Path, typer.Argument(help="Where to write them.", file_okay=False)],
    prometheus_uid: PrometheusUidOption = "groundwatch-prometheus",
) -> None:
    """Write dashboards and rules as provisioning files and Kubernetes manifests."""
    from dashboards.grafana.files import written

    for path in written(folder, prometheus_uid):
        print(path)


def _prometheus(uid: str, url: str) -> dict[str, Any]:
    return {
        "uid": uid,
        "name": "groundwatch Prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": url,
        "jsonData": {"httpMethod": "POST"},
    }


def _clickhouse(url: str, password: SecretStr | None) -> dict[str, Any]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.password:
        raise UsageError(
            [
                "--clickhouse-url: must be http(s)://user@host:port/database; the password belongs"
                " into --clickhouse-password-env"
            ]
        )
    secure = parts.scheme == "https"
    source: dict[str, Any] = {
        "uid": "groundwatch-clickhouse",
        "name": "groundwatch ClickHouse",
        "type": "grafana-clickhouse-datasource",
        "access": "proxy",
        "jsonData": {
            "host": parts.hostname,
            "port": parts.port or (8443 if secure else 8123),
            "protocol": "http",
            "secure": secure,
            "username": parts.username or "default",
            "defaultDatabase": parts.path.strip("/") or "default",
        },
    }
    if password is not None:
        source["secureJsonData"] = {"password": password.get_secret_value()}
    return source
