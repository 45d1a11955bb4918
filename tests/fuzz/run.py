"""Fuzz everything that reads bytes of others: `python -m tests.fuzz.run --inputs 500000`.

Atheris guides byte-level, structure-aware and hypothesis-made inputs by the code they reach; each
target runs in a process of its own with bounds on time and memory per input. Inputs that raise
are kept below `.fuzz/`; `--target NAME --replay FILE` runs one of them again.

Sources: https://github.com/google/atheris, https://llvm.org/docs/LibFuzzer.html
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".fuzz"
SHARES = {
    "traces": 0.2,
    "logs": 0.1,
    "requests": 0.2,
    "messages": 0.1,
    "files": 0.1,
    "signals": 0.08,
    "feedback": 0.07,
    "stored": 0.1,
    "attributes": 0.05,
}
"""Targets and their parts of all inputs. `attributes` are spans that hypothesis makes up."""

MAX_BYTES = 16_384
MAX_SECONDS_PER_INPUT = 10
MAX_MIB = 1024


class Outcome(NamedTuple):
    """What fuzzing one target came to."""

    name: str
    inputs: int
    seconds: float
    peak_mib: int
    findings: list[str]


def main() -> int:
    """Fuzz all targets, or one, and print the figures. Exit code 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="inputs over all targets")
    parser.add_argument("--jobs", type=int, default=1, help="targets fuzzed at once")
    parser.add_argument("--target", choices=list(SHARES), help="only this one, in this process")
    parser.add_argument("--replay", type=Path, help="run one kept input again")
    asked = parser.parse_args()
    if asked.target:
        _fuzz_here(asked.target, asked.inputs, asked.replay)
        return 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        outcomes = list(
            pool.map(lambda name: _fuzz(name, round(asked.inputs * SHARES[name])), SHARES)
        )
    print(f"{'target':12}{'inputs':>9}{'seconds':>9}{'MiB':>6}  findings")
    for outcome in outcomes:
        name, inputs, seconds, peak, found = outcome
        print(f"{name:12}{inputs:9d}{seconds:9.1f}{peak:6d}  {' '.join(found) or '-'}")
    findings = sum(len(outcome.findings) for outcome in outcomes)
    print(f"{sum(outcome.inputs for outcome in outcomes)} inputs, {findings} findings")
    return 1 if findings else 0


def _fuzz(name: str, inputs: int) -> Outcome:
    """Fuzz one target in a process of its own."""
    started = time.monotonic()
    kept = FOLDER / name
    kept.mkdir(parents=True, exist_ok=True)
    before = set(kept.glob("*-*"))
    command = [sys.executable, "-m", "tests.fuzz.run", "--target", name, "--inputs", str(inputs)]
    with (kept / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        usage = os.wait4(process.pid, 0)[2]
    done = re.search(r"^Done (\d+) in ", (kept / "log").read_text(), re.MULTILINE)
    findings = sorted(str(p.relative_to(ROOT)) for p in set(kept.glob("*-*")) - before)
    if done is None and not findings:
        findings = [f"ended early, see {(kept / 'log').relative_to(ROOT)}"]
    return Outcome(
        name,
        int(done[1]) if done else 0,
        time.monotonic() - started,
        usage.ru_maxrss // 1024,
        findings,
    )


def _fuzz_here(name: str, inputs: int, replay: Path | None) -> None:
    """Fuzz one target in this process, or replay one input; ends the process."""
    import atheris

    # Only what is imported below is watched for the code it reaches.
    with atheris.instrument_imports(include=["collector"]):
        from tests.fuzz.seeds import seeds
        from tests.fuzz.targets import TARGETS
        from tests.property.test_extract import test_any_attributes_give_a_record_or_a_reason

    made_up: Any = test_any_attributes_give_a_record_or_a_reason
    run: Callable[[bytes], Any] = TARGETS.get(name) or made_up.hypothesis.fuzz_one_input
    if replay is not None:
        run(replay.read_bytes())
        return
    corpus = FOLDER / name / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(name)):
        (corpus / f"seed{number}").write_bytes(seed)
    from tests.fuzz.mutations import mutated

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        changed = mutated(data, seed) if seed % 4 else None
        if changed is not None and len(changed) <= max_size:
            return changed
        plain: bytes = atheris.Mutate(data, max_size)
        return plain

    options = {
        "atheris_runs": inputs,
        "max_len": MAX_BYTES,
        "timeout": MAX_SECONDS_PER_INPUT,
        "rss_limit_mb": MAX_MIB,
        "verbosity": 0,
        "seed": 1,
        "artifact_prefix": f"{FOLDER / name}/",
    }
    arguments = [sys.argv[0], *(f"-{key}={value}" for key, value in options.items()), str(corpus)]
    atheris.Setup(arguments, run, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
