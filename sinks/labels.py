"""Labels of people: how they become rows of `labels`."""

from __future__ import annotations

from collections.abc import Sequence

from clickhouse_connect.driver.client import Client

from collector.labels import Label
from sinks.connection import translated
from sinks.rows import storable

_COLUMNS = Label.__struct_fields__


def write(client: Client, labels: Sequence[Label]) -> None:
    """Store labels, durably. Repeating it changes nothing.

    Raises:
        TransientDependencyError, PermanentDependencyError: see `translated`.
    """
    rows = [[storable(getattr(label, column)) for column in _COLUMNS] for label in labels]
    with translated("writing labels"):
        client.insert("labels", rows, column_names=_COLUMNS)
