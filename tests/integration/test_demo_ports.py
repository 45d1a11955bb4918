"""The demo starts whatever else runs on the machine."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from collector.config import ListenConfig
from collector.demo import live


async def test_a_default_port_is_taken_just_before_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        class Usual(ListenConfig):
            otlp_http: str = f"127.0.0.1:{port}"

        monkeypatch.setattr(live, "ListenConfig", Usual)
        monkeypatch.setattr(live, "_is_free", lambda address: address.endswith(f":{port}"))
        async with AsyncExitStack() as stack:
            agent = await live._start(stack, tmp_path)
            assert not agent.urls.otlp_http.endswith(f":{port}")
            assert agent.urls.otlp_http
