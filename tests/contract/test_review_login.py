"""Who may enter the review, and under which name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from collector.config import ReviewConfig
from collector.errors import TransientDependencyError
from dashboards.reports import Reports
from dashboards.review.app import build_review
from dashboards.review.login import COOKIE, Door, TooManyTries, kept_key, password_hash
from tests.fakes.store import MemoryStore

PASSWORD = "correct horse battery"
USERS = {"Ada": password_hash(PASSWORD), "Bo": password_hash("another long one")}
TOKEN = "a-token-of-a-program"
BEARER = {"authorization": f"Bearer {TOKEN}"}
PAGE = {"accept": "text/html"}
BEHIND: dict[str, Any] = {"proxy_header": "X-Forwarded-User", "trusted_proxies": ["10.0.0.0/8"]}
EVERYWHERE = [
    *("/", "/conversation/x", "/promote/x", "/sample", "/none", "/loginx", "/api/week"),
    *("/api/openapi.json", "/api/conversations/x", "/api/requests/x", "/api/reviewed"),
    *("/api/estimates", "/api/candidates/x", "/api/sources?q=x", "/static/../api/week"),
]
LABEL = {"trace_id": "t", "verdict": "wrong", "drawn": False}


class Moment:
    """A clock that is moved by hand."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def visit(
    *,
    peer: str = "192.0.2.7",
    host: str = "review.example.com",
    key: str = "key",
    clock: Moment | None = None,
    store: MemoryStore | None = None,
    **config: Any,
) -> httpx.AsyncClient:
    """Return a browser at an address, before the review as configured."""
    review = ReviewConfig(**config)
    store = store or MemoryStore()
    local = ["localhost", "127.0.0.1", "[::1]"]
    door = Door(review, [TOKEN], key, local, clock or Moment(), store)
    app = build_review(Reports(store, "judge"), list, ["*"], config=review, door=door)
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app, client=(peer, 1)), base_url=f"http://{host}"
    )


async def log_in(
    client: httpx.AsyncClient, password: str = PASSWORD, **form: str
) -> httpx.Response:
    return await client.post("/login", data={"name": "Ada", "password": password, **form})


async def status(client: httpx.AsyncClient, **headers: str) -> int:
    """Return how the API answers: 404 to those who are let in, for there is no such report."""
    return (await client.get("/api/no-such-report", headers=headers)).status_code


@pytest.mark.parametrize("config", [{"users": USERS}, BEHIND, {}], ids=["users", "proxy", "none"])
@pytest.mark.parametrize("path", EVERYWHERE)
async def test_nothing_is_shown_to_those_who_may_not_enter(
    path: str, config: dict[str, Any]
) -> None:
    client = visit(**config)
    for headers in ({}, {"authorization": "Bearer wrong"}, {"X-Forwarded-User": "Ada"}):
        answer = await client.get(path, headers=headers)
        assert answer.status_code == 401
        assert list(answer.json()) == ["error"]
    for path in ("/api/labels", "/api/export", "/logout"):
        assert (await client.post(path, json=[])).status_code == 401
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.get("/static/review.css")).status_code == 200


async def test_a_person_logs_in_goes_on_and_logs_out() -> None:
    client = visit(users=USERS)
    asked = await client.get("/conversation/a%2Fb?q=x&turn=%3C", headers=PAGE)
    assert asked.status_code == 303
    form = await client.get(asked.headers["location"])
    assert (form.status_code, form.headers["cache-control"]) == (200, "no-store")
    assert form.headers["content-security-policy"].startswith("default-src 'none'")
    onward = httpx.URL(asked.headers["location"]).params["next"]
    wrong = await log_in(client, "wrong", next=onward)
    assert (wrong.status_code, client.cookies.get(COOKIE)) == (401, None)
    done = await log_in(client, next=onward)
    assert (done.status_code, done.headers["location"]) == (303, onward)
    said = done.headers["set-cookie"].lower()
    assert all(word in said for word in ("httponly", "samesite=lax", "max-age=43200", "path=/"))
    assert "secure" not in said
    assert await status(client) == 404
    assert (await client.get("/login?next=/sample")).headers["location"] == "/sample"
    left = await client.post("/logout")
    assert (left.status_code, left.headers["location"]) == (303, "/login")
    assert await status(client) == 401


async def test_the_session_goes_by_https_only_where_people_come_by_https() -> None:
    ways: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"public_url": "https://review.example.com"}, {}),
        ({}, {"x-forwarded-proto": "https"}),
    ]
    for config, headers in ways:
        client = visit(users=USERS, **config)
        client.headers.update(headers)
        assert "secure" in (await log_in(client)).headers["set-cookie"].lower()


async def test_a_session_ends_with_the_user_the_password_and_the_key() -> None:
    client = visit(users=USERS)
    await log_in(client)
    cookie = {"cookie": f"{COOKIE}={client.cookies[COOKIE]}"}
    assert await status(visit(users=USERS), **cookie) == 404
    changed = {**USERS, "Ada": password_hash(PASSWORD)}
    for elsewhere in (
        visit(users=changed),
        visit(users={"Bo": USERS["Bo"]}),
        visit(users=USERS, key="other"),
    ):
        assert await status(elsewhere, **cookie) == 401
    broken = {"cookie": f"{COOKIE}={client.cookies[COOKIE][:-2]}xx"}
    assert await status(visit(users=USERS), **broken) == 401


async def test_logging_out_ends_all_sessions_of_that_name_also_stolen_ones() -> None:
    store, clock = MemoryStore(), Moment()
    agents = [visit(users=USERS, store=store, clock=clock) for _ in range(2)]
    await log_in(agents[0])
    stolen = {"cookie": f"{COOKIE}={agents[0].cookies[COOKIE]}"}
    other = {"name": "Bo", "password": "another long one"}
    bo = visit(users=USERS, store=store, clock=clock)
    await bo.post("/login", data=other)
    await agents[1].get("/login")
    assert [await status(agent, **stolen) for agent in agents] == [404, 404]

    await agents[0].post("/logout")
    assert await status(visit(users=USERS, store=store, clock=clock), **stolen) == 401
    clock.seconds += 5.0
    assert [await status(agent, **stolen) for agent in agents] == [401, 401]
    assert await status(bo) == 404
    await log_in(agents[0])
    assert await status(agents[0]) == 404
    assert await status(agents[1], **stolen) == 401


async def test_logging_out_holds_in_this_process_where_the_store_is_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = MemoryStore()
    client = visit(users=USERS, store=store)
    await log_in(client)
    stolen = {"cookie": f"{COOKIE}={client.cookies[COOKIE]}"}
    store.fail_next(1, TransientDependencyError("the store does not answer"))
    left = await client.post("/logout")
    assert (left.status_code, COOKIE in client.cookies) == (303, False)
    assert await status(client, **stolen) == 401
    assert "logout_not_kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    "onward",
    ["//evil.example", "https://evil.example", "/\\evil.example", "\\evil", "/\t/evil.example", ""],
)
async def test_the_login_leads_to_no_other_site(onward: str) -> None:
    assert (await log_in(visit(users=USERS), next=onward)).headers["location"] == "/"


async def test_another_site_logs_nobody_in_or_out() -> None:
    client = visit(users=USERS)
    for path in ("/login", "/logout"):
        client.headers["origin"] = "http://evil.example"
        answer = await client.post(path, data={"name": "Ada", "password": PASSWORD})
        assert (answer.status_code, COOKIE in client.cookies) == (
            (403, False) if path == "/login" else (401, False)
        )
    del client.headers["origin"]
    await log_in(client)
    left = await client.post("/logout", headers={"sec-fetch-site": "cross-site"})
    assert left.status_code == 403
    assert await status(client) == 404


async def test_whoever_guesses_waits_and_nobody_else_does() -> None:
    clock = Moment()
    client = visit(users=USERS, clock=clock)
    assert [(await log_in(client, "guess")).status_code for _ in range(5)] == [401] * 5
    refused = await log_in(client)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "61")
    assert "Wait 61 seconds" in refused.text
    other = await client.post("/login", data={"name": "Bo", "password": "another long one"})
    assert other.status_code == 303
    clock.seconds = 61.0
    assert (await log_in(client)).status_code == 303
    unknown = [
        (await client.post("/login", data={"name": f"n{n}", "password": "x"})).status_code
        for n in range(6)
    ]
    assert unknown == [401] * 5 + [429]


async def test_whoever_has_a_whole_network_of_addresses_guesses_no_more_often() -> None:
    clock = Moment()
    review = ReviewConfig(users=USERS)
    door = Door(review, clock=clock)
    for number in range(5):
        assert await door.session("Ada", "guess", f"2001:db8:1:2::{number}") is None
    with pytest.raises(TooManyTries):
        await door.session("Ada", PASSWORD, "2001:db8:1:2:ffff::1")
    for elsewhere in ("2001:db8:1:3::1", "::ffff:192.0.2.7", "192.0.2.8"):
        assert await door.session("Ada", PASSWORD, elsewhere)


async def test_whoever_is_logged_in_signs_with_that_name_alone() -> None:
    client = visit(users=USERS)
    await log_in(client)
    for path, body in (
        ("labels", {**LABEL, "labeller": "Bo"}),
        ("labels", [{**LABEL, "labeller": "Ada"}, {**LABEL, "labeller": "Bo"}]),
        ("export", {"actor": "Bo"}),
        ("candidates/x/events", {"event": "rejected", "actor": "Bo", "seen": 0}),
    ):
        answer = await client.post(f"/api/{path}", json=body)
        assert answer.status_code == 403, path
        assert "you are logged in as Ada" in answer.json()["error"]
    own = await client.post("/api/labels", json={**LABEL, "labeller": "Ada"})
    assert own.json()["stored"] == 1
    unsigned = await client.post("/api/labels", json=LABEL)
    assert (unsigned.status_code, "labeller" in unsigned.json()["error"]) == (400, True)


async def test_programs_with_a_token_hand_on_the_word_of_others() -> None:
    for config in ({"users": USERS}, BEHIND, {}):
        client = visit(**config)
        client.headers.update(BEARER)
        answer = await client.post("/api/labels", json={**LABEL, "labeller": "Zoe"})
        assert answer.json()["stored"] == 1


@pytest.mark.parametrize(
    ("peer", "headers", "code"),
    [
        ("10.1.2.3", {"X-Forwarded-User": "Ada"}, 404),
        ("::ffff:10.1.2.3", {"X-Forwarded-User": "Ada"}, 404),
        ("192.0.2.7", {"X-Forwarded-User": "Ada"}, 401),
        ("192.0.2.7", {"X-Forwarded-User": "Ada", "X-Forwarded-For": "10.1.2.3"}, 401),
        ("127.0.0.1", {"X-Forwarded-User": "Ada"}, 401),
        ("10.1.2.3", {"X-Forwarded-User": " "}, 401),
        ("10.1.2.3", {}, 401),
        ("10.1.2.3", [("X-Forwarded-User", "Ada"), ("X-Forwarded-User", "Bo")], 401),
    ],
)
async def test_a_name_is_believed_from_a_trusted_proxy_only(
    peer: str, headers: Any, code: int
) -> None:
    client = visit(peer=peer, host="localhost", **BEHIND)
    assert (await client.get("/api/no-such-report", headers=headers)).status_code == code


async def test_the_proxys_name_is_text_and_signs() -> None:
    client = visit(peer="10.0.0.1", **BEHIND)
    client.headers.update([(b"X-Forwarded-User", "<b>Åsa\u202e</b>".encode())])
    shown = (await client.get("/none", headers=PAGE)).text
    assert "&lt;b&gt;Åsa&lt;/b&gt;" in shown
    assert "Log out" not in shown
    body = {**LABEL, "labeller": "<b>Åsa</b>"}
    assert (await client.post("/api/labels", json=body)).json()["stored"] == 1


@pytest.mark.parametrize(
    ("peer", "host", "code"),
    [
        ("127.0.0.1", "localhost:8088", 404),
        ("::1", "[::1]:8088", 404),
        ("127.0.0.1", "127.0.0.1", 404),
        ("127.0.0.1", "LocalHost:8088", 404),
        ("127.0.0.1", "evil.example:8088", 401),
        ("172.17.0.1", "localhost:8088", 401),
    ],
)
async def test_without_a_login_only_this_machine_is_answered(
    peer: str, host: str, code: int
) -> None:
    client = visit(peer=peer, host=host)
    assert await status(client) == code
    if code == 401:
        refused = await client.get("/", headers=PAGE)
        assert refused.status_code == 403
        assert "set review.users or review.proxy_header" in refused.text


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"])
async def test_without_a_login_a_proxy_on_this_machine_lets_nobody_in(header: str) -> None:
    client = visit(peer="127.0.0.1", host="127.0.0.1:8088")
    assert await status(client, **{header: "198.51.100.9"}) == 401


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"users": {"Ada": PASSWORD}}, "no hash of a password"),
        ({"users": {" Ada": USERS["Ada"]}}, "a name has"),
        ({"users": {"A\u202eda": USERS["Ada"]}}, "a name has"),
        ({"proxy_header": "X-Forwarded-User"}, "trusted_proxies"),
        ({"public_url": "https://example.com/review"}, "without a path"),
    ],
)
def test_a_login_that_would_not_hold_is_refused(config: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        ReviewConfig(**config)


def test_the_key_of_sessions_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "session-key"
    key = kept_key(file)
    assert len(key) == 64
    assert kept_key(file) == key
    assert file.stat().st_mode & 0o777 == 0o600
