"""Whatever the order of completion, the watermark never passes an incomplete position."""

from hypothesis import given
from hypothesis import strategies as st

from collector.acks import Acks
from collector.ports import Position


@given(
    holds=st.lists(st.integers(0, 3), min_size=1, max_size=30),
    seed=st.randoms(use_true_random=False),
)
def test_the_watermark_is_the_first_incomplete_offset(holds: list[int], seed: object) -> None:
    acks = Acks()
    left = {}
    releases = []
    for offset, extra in enumerate(holds):
        acks.read(Position(0, offset))
        for _ in range(extra):
            acks.hold(Position(0, offset))
        left[offset] = extra + 1
        releases += [offset] * (extra + 1)
    seed.shuffle(releases)  # type: ignore[attr-defined]
    committed = 0
    for offset in releases:
        acks.release([Position(0, offset)])
        left[offset] -= 1
        moved = acks.committable()
        acks.committed(moved)
        committed = moved.get(0, committed)
        incomplete = [o for o in left if left[o] > 0]
        assert committed == min(incomplete, default=len(holds))
    assert len(acks) == 0
