"""The demo starts whatever else runs on the machine."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from collector.config import ListenConfig
from collector.demo import live


async def test_a_default_port_is_taken_just_before_it_listens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = ListenConfig().otlp_http
    monkeypatch.setattr(live, "_is_free", lambda address: address == usual)
    host, _, port = usual.rpartition(":")
    with socket.socket() as other:
        with suppress(OSError):  # somebody else has it already
            other.bind((host, int(port)))
            other.listen()
        async with AsyncExitStack() as stack:
            agent = await live._start(stack, tmp_path)
            assert not agent.urls.otlp_http.endswith(f":{port}")
            assert agent.urls.otlp_http
