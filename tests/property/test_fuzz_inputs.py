"""A short and always equal part of the fuzzing that `make fuzz` does at length.

What fuzzing found once stays here as an input of its own.
"""

from __future__ import annotations

import random

import pytest

from tests.fuzz.mutations import mutated
from tests.fuzz.seeds import LOGS, RECORDINGS, pieces
from tests.fuzz.targets import TARGETS

PIECES = [p for path in sorted(RECORDINGS.glob("*.pb")) for p in pieces(path.read_bytes())]
ROUNDS = 3


@pytest.mark.parametrize("target", ["traces", "requests", "files"])
def test_changed_trace_bodies_are_read_or_refused(target: str) -> None:
    for number, piece in enumerate(PIECES):
        for seed in range(ROUNDS):
            changed = mutated(piece, number * ROUNDS + seed)
            assert changed is not None
            TARGETS[target](changed)


@pytest.mark.parametrize("target", ["logs", "messages"])
def test_changed_log_bodies_are_read_or_refused(target: str) -> None:
    for seed in range(200):
        changed = mutated(LOGS, seed)
        assert changed is not None
        TARGETS[target](changed)


@pytest.mark.parametrize("target", list(TARGETS))
def test_bodies_with_bytes_flipped_or_missing_are_read_or_refused(target: str) -> None:
    chance = random.Random(7)
    for source in (*PIECES[::4], LOGS):
        damaged = bytearray(source)
        for _ in range(3):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        TARGETS[target](bytes(damaged))
        TARGETS[target](source[: chance.randrange(len(source))])
