"""What the review keeps for some seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dashboards.review.memory import SECONDS, Memory, window_key
from dashboards.windows import last

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Counted:
    """Works out 1, then 2, and so on; somebody may change something meanwhile."""

    def __init__(self) -> None:
        self.times = 0
        self.changed: Memory | None = None

    async def __call__(self) -> int:
        self.times += 1
        if self.changed is not None:
            self.changed.clear()
        return self.times


async def test_an_answer_is_kept_for_its_time_and_no_longer() -> None:
    time = [0.0]
    memory, work = Memory(lambda: time[0]), Counted()
    assert [await memory.get("a", work), await memory.get("a", work)] == [1, 1]
    assert await memory.get("b", work) == 2
    time[0] = SECONDS
    assert await memory.get("a", work) == 3


async def test_what_was_changed_is_worked_out_again_even_if_that_was_under_way() -> None:
    memory, work = Memory(lambda: 0.0), Counted()
    await memory.get("a", work)
    memory.clear()
    assert await memory.get("a", work) == 2
    memory.clear()
    work.changed = memory
    await memory.get("a", work)
    assert await memory.get("a", work) == 4


def test_only_windows_that_end_now_are_the_same_a_moment_later() -> None:
    later = NOW + timedelta(seconds=5)
    assert window_key(last("7d", NOW), NOW) == window_key(last("7d", later), later)
    assert window_key(last("7d", NOW), NOW) != window_key(last("6d", NOW), NOW)
    ended = NOW - timedelta(hours=2)
    moved = ended + timedelta(seconds=5)
    assert window_key(last("7d", ended), NOW) != window_key(last("7d", moved), NOW)
