"""What ClickHouse keeps on disk of a million requests, by table, at several sizes of texts.

python -m tests.bench.disk [--requests 2000]

An agent with the embedded engine stores requests whose texts are words drawn as often as words of
a language are, so that they shrink as prose does. Parts are merged before they are counted.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path

from collector.trace_files.encode import body_of_spans
from sinks.connection import connect
from tests.bench.end_to_end import send
from tests.fakes.requests import asked_now
from tests.processes import AgentProcess

SIZES = {"short": (60, 300, 2_000), "usual": (100, 600, 6_000), "long": (300, 1_500, 24_000)}
"""Characters of question, answer and all documents together."""
WORDS = 20_000
TABLES = ("requests", "telemetry", "judgements")
REQUESTS_A_BODY = 50


class Prose:
    """Words whose frequencies fall as 1/rank, as in a language."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        letters = "etaoinshrdlcumwfgypbvk"
        self._words = [
            "".join(self._rng.choices(letters, k=self._rng.randint(1 + rank // 5_000, 9)))
            for rank in range(WORDS)
        ]
        self._weights = list(accumulate(1 / (rank + 2) for rank in range(WORDS)))

    def of(self, characters: int) -> str:
        """Return a text of about so many characters, a dot after every dozen words."""
        words = self._rng.choices(self._words, cum_weights=self._weights, k=characters // 5)
        return " ".join(f"{w}." if i % 12 == 11 else w for i, w in enumerate(words))[:characters]


def bytes_a_request(folder: Path, requests: int, lengths: tuple[int, int, int]) -> dict[str, float]:
    """Return what a request takes on disk, by table."""
    prose = Prose(1)
    bodies = [
        body_of_spans(
            [
                span
                for number in range(first, first + REQUESTS_A_BODY)
                for span in asked_now(number, *map(prose.of, lengths))
            ]
        )
        for first in range(0, requests, REQUESTS_A_BODY)
    ]
    with AgentProcess(folder, {"assembler": {"quiet_seconds": 0.2}}) as agent:
        asyncio.run(send(agent.urls["otlp_http"], bodies))
        while (totals := agent.totals())["requests"] < requests or totals["waiting"]:
            time.sleep(0.5)
    client = connect(f"chdb://{agent.data_dir / 'clickhouse'}", {})
    for table in TABLES:
        client.command(f"OPTIMIZE TABLE {table} FINAL")
    found = client.query(
        "SELECT table, sum(bytes_on_disk) FROM system.parts WHERE active GROUP BY table"
    )
    client.close()
    return {table: size / requests for table, size in found.result_rows if table in TABLES}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2_000)
    arguments = parser.parse_args()
    print(f"GB on disk for a million requests, from {arguments.requests}; all of them judged\n")
    print(f"{'question, answer, documents':30}" + "".join(f"{table:>12}" for table in TABLES))
    for name, lengths in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            found = bytes_a_request(Path(folder), arguments.requests, lengths)
        sizes = " + ".join(f"{length:,}" for length in lengths)
        print(f"{name}: {sizes:23}" + "".join(f"{found[table] / 1e3:12.1f}" for table in TABLES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
