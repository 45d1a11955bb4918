"""Brings a Grafana to what this version holds: folder, data sources, dashboards, alert rules.

Everything is found again by its uid, compared, and written only where it differs. What somebody
else saves between reading and writing is not overwritten unseen: it is read again.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import resources
from typing import Any, Literal, NamedTuple, Protocol

from collector.errors import Conflict, PermanentDependencyError
from dashboards.grafana.alerting import GROUP, rule_group

FOLDER_UID = "groundwatch"
FOLDER_TITLE = "groundwatch"
_TRIES = 3
_OWN_TO_GRAFANA = ("id", "version")

Json = dict[str, Any]
Kind = Literal["folder", "data source", "dashboard", "alert rules"]


class Grafana(Protocol):
    """The parts of Grafana's HTTP API that are used. Readers return None where there is none.

    All raise DependencyError where Grafana does not answer or says no, and Conflict from writers
    where the version that was read is not the newest any more.
    """

    def folder(self, uid: str) -> Json | None:
        """Return a folder."""

    def create_folder(self, uid: str, title: str) -> None:
        """Make a folder."""

    def data_source(self, uid: str) -> Json | None:
        """Return a data source."""

    def create_data_source(self, source: Json) -> None:
        """Make a data source."""

    def update_data_source(self, uid: str, source: Json) -> None:
        """Change a data source, `source` holding the version that was read."""

    def dashboard(self, uid: str) -> tuple[Json, str] | None:
        """Return the dashboard and the uid of its folder."""

    def save_dashboard(self, dashboard: Json, folder_uid: str) -> None:
        """Make or change a dashboard, which holds the version that was read."""

    def rule_group(self, folder_uid: str, group: str) -> Json | None:
        """Return a group of alert rules."""

    def save_rule_group(self, folder_uid: str, group: str, content: Json) -> None:
        """Make or change a group of alert rules as a whole."""


class Wanted(NamedTuple):
    """What a Grafana is to hold. Data sources are left alone where none is named."""

    dashboards: Sequence[Json]
    data_sources: Sequence[Json] = ()
    prometheus_uid: str | None = None


class Step(NamedTuple):
    """What was done, or would be, to one thing; `diff` in unified form where it is changed."""

    action: Literal["create", "update", "keep"]
    kind: Kind
    uid: str
    diff: list[str]


def packaged_dashboards() -> list[Json]:
    """Return the dashboards of this version."""
    folder = resources.files("dashboards.grafana") / "json"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return [json.loads(file.read_text("utf-8")) for file in files if file.name.endswith(".json")]


def push(grafana: Grafana, wanted: Wanted, *, dry_run: bool = False) -> Iterator[Step]:
    """Do what is needed, and yield each step once it is done.

    Args:
        grafana: the server.
        wanted: what it is to hold.
        dry_run: only read, and yield what would be done.

    Raises:
        DependencyError: Grafana does not answer or says no; names what was to be written. What
            was yielded before is done.
    """
    found = grafana.folder(FOLDER_UID)
    if found is None and not dry_run:
        grafana.create_folder(FOLDER_UID, FOLDER_TITLE)
    yield Step("keep" if found else "create", "folder", FOLDER_UID, [])
    for source in wanted.data_sources:
        yield _patiently(partial(_source, grafana, source, dry_run=dry_run))
    for dashboard in wanted.dashboards:
        yield _patiently(partial(_dashboard, grafana, dashboard, dry_run=dry_run))
    if wanted.prometheus_uid is not None:
        group = rule_group(FOLDER_UID, wanted.prometheus_uid)
        yield _patiently(partial(_rules, grafana, group, dry_run=dry_run))


def _patiently(work: Callable[[], Step]) -> Step:
    """Read and write again where someone else wrote in between."""
    for _ in range(_TRIES - 1):
        with suppress(Conflict):
            return work()
    try:
        return work()
    except Conflict as err:
        raise PermanentDependencyError(
            f"{err}: someone else keeps changing it; try again when they are done"
        ) from err


def _source(grafana: Grafana, wanted: Json, *, dry_run: bool) -> Step:
    uid = wanted["uid"]
    found = grafana.data_source(uid)
    # Grafana never shows a secret again, so it is no part of the comparison.
    shown = {key: value for key, value in wanted.items() if key != "secureJsonData"}
    if found is None:
        if not dry_run:
            grafana.create_data_source(wanted)
        return Step("create", "data source", uid, [])
    diff = _diff(_like(found, shown), shown)
    if diff and not dry_run:
        grafana.update_data_source(uid, {**wanted, "version": found.get("version", 0)})
    return Step("update" if diff else "keep", "data source", uid, diff)


def _dashboard(grafana: Grafana, wanted: Json, *, dry_run: bool) -> Step:
    uid = wanted["uid"]
    found = grafana.dashboard(uid)
    if found is None:
        if not dry_run:
            grafana.save_dashboard({**wanted, "id": None, "version": 0}, FOLDER_UID)
        return Step("create", "dashboard", uid, [])
    dashboard, folder = found
    bare = {key: value for key, value in dashboard.items() if key not in _OWN_TO_GRAFANA}
    asked = {key: value for key, value in wanted.items() if key not in _OWN_TO_GRAFANA}
    diff = _diff({"folder": folder, **bare}, {"folder": FOLDER_UID, **asked})
    if diff and not dry_run:
        own = {key: dashboard.get(key) for key in _OWN_TO_GRAFANA}
        grafana.save_dashboard({**asked, **own}, FOLDER_UID)
    return Step("update" if diff else "keep", "dashboard", uid, diff)


def _rules(grafana: Grafana, wanted: Json, *, dry_run: bool) -> Step:
    found = grafana.rule_group(FOLDER_UID, GROUP)
    diff = [] if found is None else _diff(_like(found, wanted), wanted)
    if (found is None or diff) and not dry_run:
        grafana.save_rule_group(FOLDER_UID, GROUP, wanted)
    if found is None:
        return Step("create", "alert rules", GROUP, [])
    return Step("update" if diff else "keep", "alert rules", GROUP, diff)


def _like(found: Any, wanted: Any) -> Any:
    """Return what was found as far as it says something about what is wanted.

    Grafana adds fields of its own to what it is given.
    """
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        return {key: _like(found[key], wanted[key]) for key in wanted if key in found}
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        return [_like(one, other) for one, other in zip(found, wanted, strict=True)]
    return found


def _diff(before: Json, after: Json) -> list[str]:
    old, new = (
        json.dumps(one, indent=1, sort_keys=True, ensure_ascii=False).splitlines()
        for one in (before, after)
    )
    return list(difflib.unified_diff(old, new, "in Grafana", "here", lineterm="", n=1))
