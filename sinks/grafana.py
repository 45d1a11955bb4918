"""Grafana's HTTP API through grafana-client: the one place where its errors are read.

grafana-client brings an HTTP library that replaces urllib3 in its environment, so it is installed
in one of its own, apart from the agent, and imported only here and only when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from collector.errors import (
    Conflict,
    DependencyError,
    PermanentDependencyError,
    TransientDependencyError,
)

_TIMEOUT_SECONDS = 30.0
_CHANGED = (409, 412)
_CURES = {
    401: "the token is not accepted: make one for a service account of this Grafana",
    403: "the token may not do this: its service account needs the role Editor, for data sources"
    " Admin",
    404: "there is no such thing at this address: is it the address of a Grafana?",
}

Json = dict[str, Any]


class GrafanaServer:
    """One Grafana, as `dashboards.grafana.push` uses it.

    Args:
        url: its address, with the path it is served under.
        token: of a service account; without one whatever `url` itself holds.

    Raises:
        PermanentDependencyError: grafana-client is not installed, or the address is none.
    """

    def __init__(self, url: str, token: SecretStr | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PermanentDependencyError(
                f"Grafana: {url!r} is no address such as https://grafana.example.com"
            )
        try:
            from grafana_client import GrafanaApi
        except ImportError as err:
            raise PermanentDependencyError(
                "grafana-client is not installed: install groundwatch[grafana] into an environment"
                " of its own, apart from the agent, since it replaces urllib3 there"
            ) from err
        self._where = url
        # A path without a slash at its end would run into the one of the API.
        self._api = GrafanaApi.from_url(
            url.rstrip("/") + "/",
            None if token is None else token.get_secret_value(),
            timeout=_TIMEOUT_SECONDS,
        )

    def folder(self, uid: str) -> Json | None:
        """Return a folder, None where there is none."""
        return self._read(f"the folder {uid}", self._api.folder.get_folder, uid)

    def create_folder(self, uid: str, title: str) -> None:
        """Make a folder."""
        with self._translated(f"making the folder {title}"):
            self._api.folder.create_folder(title, uid=uid)

    def data_source(self, uid: str) -> Json | None:
        """Return a data source, None where there is none."""
        read = self._api.datasource.get_datasource_by_uid
        return self._read(f"the data source {uid}", read, uid)

    def create_data_source(self, source: Json) -> None:
        """Make a data source."""
        with self._translated(f"making the data source {source['name']}"):
            self._api.datasource.create_datasource(source)

    def update_data_source(self, uid: str, source: Json) -> None:
        """Change a data source, whose `version` must be the newest."""
        with self._translated(f"changing the data source {source['name']}"):
            self._api.datasource.update_datasource_by_uid(uid, source)

    def dashboard(self, uid: str) -> tuple[Json, str] | None:
        """Return a dashboard and the uid of its folder, None where there is none."""
        found = self._read(f"the dashboard {uid}", self._api.dashboard.get_dashboard, uid)
        return None if found is None else (found["dashboard"], found["meta"].get("folderUid", ""))

    def save_dashboard(self, dashboard: Json, folder_uid: str) -> None:
        """Make or change a dashboard, whose `version` must be the newest."""
        with self._translated(f"writing the dashboard {dashboard['title']}"):
            self._api.dashboard.update_dashboard(
                {
                    "dashboard": dashboard,
                    "folderUid": folder_uid,
                    "overwrite": False,
                    "message": "groundwatch dashboards push",
                }
            )

    def rule_group(self, folder_uid: str, group: str) -> Json | None:
        """Return a group of alert rules, None where there is none."""
        read = self._api.alertingprovisioning.get_rule_group
        return self._read(f"the alert rules {group}", read, folder_uid, group)

    def save_rule_group(self, folder_uid: str, group: str, content: Json) -> None:
        """Make or change a group of alert rules as a whole."""
        with self._translated(f"writing the alert rules {group}"):
            self._api.alertingprovisioning.update_rule_group(folder_uid, group, content)

    def _read(self, what: str, read: Callable[..., Json], *names: str) -> Json | None:
        from grafana_client.client import GrafanaClientError

        with self._translated(f"reading {what}"):
            try:
                return read(*names)
            except GrafanaClientError as err:
                # A 404 of Grafana says what it lacks in JSON; any other server answers otherwise.
                if err.status_code == 404 and isinstance(err.response, dict):
                    return None
                raise

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        from grafana_client.client import GrafanaException
        from niquests.exceptions import RequestException

        try:
            yield
        except GrafanaException as err:
            raise self._error(doing, err.status_code, err.response) from err
        except RequestException as err:
            raise TransientDependencyError(
                f"Grafana: {doing}: {self._where} does not answer ({type(err).__name__})"
            ) from err

    def _error(self, doing: str, status: int, response: object) -> Exception:
        told = response.get("message", "") if isinstance(response, dict) else ""
        reason = response.get("status", "") if isinstance(response, dict) else ""
        said = f"Grafana: {doing}: status {status}{': ' + told if told else ''}"
        if status in _CHANGED and reason != "name-exists":
            return Conflict(said)
        if reason == "name-exists":
            return PermanentDependencyError(
                f"{said}; it is not ours, so it is not overwritten: rename or remove it"
            )
        kind: type[DependencyError] = PermanentDependencyError
        if status == 429 or status >= 500 or status == 0:
            kind = TransientDependencyError
        cure = _CURES.get(status)
        return kind(f"{said}; {cure}" if cure else said)
