"""An HTTP server that answers like Grafana's API, as grafana.com documents it.

    with GrafanaServer() as server:
        ...  # point a client at server.url, with the token server.token
    assert server.dashboards["groundwatch-overview"]["version"] == 1

Folders, data sources, dashboards with versions, and groups of alert rules. `before_write` is called
with method and path of each write before it is done: there a test lets others write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fakes.serving import Served

Json = dict[str, Any]
_REQUIRED_OF_A_RULE = (
    *("title", "ruleGroup", "folderUID", "noDataState", "execErrState"),
    *("for", "condition", "data"),
)


class GrafanaServer(Served):
    """The server, on a free port of the loopback, in a thread of its own. A context manager.

    Args:
        path: under which it is served, such as /grafana.
        role: of the token: Admin, Editor or Viewer.
    """

    def __init__(self, path: str = "", role: str = "Admin") -> None:
        self.token = "glsa_token_of_a_service_account"
        self.role = role
        self.folders: dict[str, Json] = {}
        self.sources: dict[str, Json] = {}
        self.secrets: dict[str, Json] = {}
        self.dashboards: dict[str, Json] = {}
        self.folder_of: dict[str, str] = {}
        self.groups: dict[tuple[str, str], Json] = {}
        self.writes: list[str] = []
        self.before_write: Callable[[str, str], None] = lambda method, path: None
        self.always: Response | None = None
        routes = [
            Route(f"{path}/api/folders", self._folders, methods=["POST"]),
            Route(f"{path}/api/folders/{{uid}}", self._folder),
            Route(f"{path}/api/datasources", self._sources, methods=["POST"]),
            Route(f"{path}/api/datasources/uid/{{uid}}", self._source, methods=["GET", "PUT"]),
            Route(f"{path}/api/dashboards/db", self._save_dashboard, methods=["POST"]),
            Route(f"{path}/api/dashboards/uid/{{uid}}", self._dashboard),
            Route(
                f"{path}/api/v1/provisioning/folder/{{folder}}/rule-groups/{{group}}",
                self._group,
                methods=["GET", "PUT"],
            ),
        ]
        super().__init__(Starlette(routes=[self._guarded(route) for route in routes]))
        self.url = f"{self.root}{path}"

    def _guarded(self, route: Route) -> Route:
        """Ask for the token and its role before anything else."""
        answer = route.endpoint

        async def guarded(request: Request) -> Response:
            if self.always is not None:
                return self.always
            if request.headers.get("authorization") != f"Bearer {self.token}":
                return _no(401, "Invalid API key")
            if request.method != "GET":
                of_sources = "/datasources" in request.url.path
                if self.role == "Viewer" or (of_sources and self.role != "Admin"):
                    return _no(403, "You'll need additional permissions to perform this action.")
                self.before_write(request.method, request.url.path)
                self.writes.append(f"{request.method} {request.url.path}")
            found: Response = await answer(request)
            return found

        return Route(route.path, guarded, methods=list(route.methods or ()))

    async def _folders(self, request: Request) -> Response:
        asked = await request.json()
        if asked["uid"] in self.folders:
            return _no(409, "a folder with the same name already exists in the current location")
        self.folders[asked["uid"]] = {**asked, "id": len(self.folders) + 1, "version": 1}
        return JSONResponse(self.folders[asked["uid"]])

    async def _folder(self, request: Request) -> Response:
        found = self.folders.get(request.path_params["uid"])
        return JSONResponse(found) if found else _no(404, "folder not found", "not-found")

    async def _sources(self, request: Request) -> Response:
        asked = await request.json()
        if asked["name"] in {source["name"] for source in self.sources.values()}:
            return _no(409, "data source with the same name already exists")
        self._keep_source({**asked, "id": len(self.sources) + 1, "version": 1})
        return JSONResponse({"datasource": self.sources[asked["uid"]], "message": "added"})

    async def _source(self, request: Request) -> Response:
        uid = request.path_params["uid"]
        found = self.sources.get(uid)
        if found is None:
            return _no(404, "Data source not found")
        if request.method == "GET":
            return JSONResponse(found)
        if found.get("readOnly"):
            return _no(403, "Cannot update read-only data source")
        asked = await request.json()
        if asked.get("version") != found["version"]:
            return _no(409, "Datasource has already been updated by someone else.")
        self._keep_source({**found, **asked, "version": found["version"] + 1})
        return JSONResponse({"datasource": self.sources[uid], "message": "updated"})

    def _keep_source(self, source: Json) -> None:
        self.secrets[source["uid"]] = source.pop("secureJsonData", {})
        shown = {"orgId": 1, "basicAuth": False, "isDefault": False, "readOnly": False}
        self.sources[source["uid"]] = shown | source

    async def _save_dashboard(self, request: Request) -> Response:
        asked = await request.json()
        dashboard, folder = asked["dashboard"], asked.get("folderUid", "")
        if folder and folder not in self.folders:
            return _no(404, "folder not found", "not-found")
        found = self.dashboards.get(dashboard["uid"])
        same_name = {
            d["title"]
            for d in self.dashboards.values()
            if d["uid"] != dashboard["uid"] and self.folder_of[d["uid"]] == folder
        }
        if dashboard["title"] in same_name:
            said = "A dashboard with the same name in the folder already exists"
            return _no(412, said, "name-exists")
        if found and not asked["overwrite"] and dashboard.get("version") != found["version"]:
            said = "The dashboard has been changed by someone else"
            return _no(412, said, "version-mismatch")
        version = found["version"] + 1 if found else 1
        self.keep_dashboard({**dashboard, "version": version}, folder)
        return JSONResponse({"uid": dashboard["uid"], "status": "success", "version": version})

    def keep_dashboard(self, dashboard: Json, folder: str) -> None:
        """Store a dashboard as it is given."""
        self.dashboards[dashboard["uid"]] = {**dashboard, "id": 7}
        self.folder_of[dashboard["uid"]] = folder

    async def _dashboard(self, request: Request) -> Response:
        uid = request.path_params["uid"]
        if uid not in self.dashboards:
            return _no(404, "Dashboard not found", "not-found")
        meta = {"folderUid": self.folder_of[uid], "version": self.dashboards[uid]["version"]}
        return JSONResponse({"dashboard": self.dashboards[uid], "meta": meta})

    async def _group(self, request: Request) -> Response:
        key = request.path_params["folder"], request.path_params["group"]
        if request.method == "GET":
            found = self.groups.get(key)
            return JSONResponse(found) if found else _no(404, "rule group not found")
        asked = await request.json()
        if key[0] not in self.folders:
            return _no(404, "folder does not exist")
        for rule in asked["rules"]:
            if lacking := [name for name in _REQUIRED_OF_A_RULE if name not in rule]:
                return _no(400, f"invalid alert rule: {', '.join(lacking)}")
            if rule["condition"] not in {query["refId"] for query in rule["data"]}:
                return _no(400, "condition must be one of the queries")
            rule |= {"id": 1, "orgID": 1, "updated": "2026-11-30T00:00:00Z", "provenance": "api"}
        self.groups[key] = asked
        return JSONResponse(asked)


def _no(status: int, message: str, reason: str | None = None) -> Response:
    said = {"message": message} | ({"status": reason} if reason else {})
    return JSONResponse(said, status)
