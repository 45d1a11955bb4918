"""Writes the dashboards as JSON: python -m dashboards.grafana; --check compares."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from dashboards.grafana import golden, overview, pipeline, segments, signals, spend
from dashboards.grafana.frame import built

FOLDER = Path(__file__).parent / "json"
PAGES = (
    *(overview.PAGE, segments.PAGE, spend.PAGE),
    *(pipeline.PAGE, signals.PAGE, golden.PAGE),
)


def rendered() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {f"{page.uid}.json": _text(built(page)) for page in PAGES}


def _text(dashboard: dict[str, Any]) -> str:
    return json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    """Write the files, or with --check say whether they are current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether they are current")
    found = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    if parser.parse_args().check:
        if found == rendered():
            return 0
        print("the dashboards are out of date; run make fmt", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    for name in found.keys() - rendered().keys():
        (FOLDER / name).unlink()
    for name, text in rendered().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
