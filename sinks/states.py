"""Small running states, each a row that is replaced as a whole. Each a call on one client."""

from __future__ import annotations

from clickhouse_connect.driver.client import Client

from sinks.connection import translated

_NEWEST = "SELECT body FROM states WHERE name = {name:String} ORDER BY version DESC LIMIT 1"


def save(client: Client, name: str, version: int, body: bytes) -> None:
    """See `collector.ports.Store.save_state`."""
    with translated("writing states"):
        client.insert("states", [[name, version, body]], column_names=["name", "version", "body"])


def load(client: Client, name: str) -> bytes | None:
    """See `collector.ports.Store.state`."""
    with translated("reading states"):
        found = client.query(
            _NEWEST, parameters={"name": name}, column_formats={"body": "bytes"}
        ).result_rows
    return bytes(found[0][0]) if found else None
