"""What Kafka's client (kafka-python 3.0.12) forgets, put right before each poll.

Both reach for private parts of the client; a version without these is left alone.
"""

from __future__ import annotations

from typing import Any


def take_up_parked(client: Any) -> None:
    """Have a partition read on that was paused with records half given out.

    The client parks these and takes them up again only where nothing was read since: one that read
    another partition to its end, which came while it was paused, never asks for the rest
    (`Fetcher.fetched_records`). What is at its end is nothing.
    """
    fetcher: Any = getattr(client, "_fetcher", None)
    if not getattr(fetcher, "_next_partition_records", True):
        fetcher._next_partition_records = None


def finish_joining(client: Any) -> None:
    """Have a member wait for the share that it asked for.

    A leader that asks because the topic has grown no longer knows that it has once it has shared
    out. Where a poll ends just then it never takes its own share: it is out of its group and asks
    the brokers without a pause (`ConsumerCoordinator.need_rejoin`). To want what is under way
    costs nothing.
    """
    coordinator: Any = getattr(client, "_coordinator", None)
    if getattr(coordinator, "rejoining", False):
        coordinator.request_rejoin()
