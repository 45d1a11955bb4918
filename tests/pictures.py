"""Makes the README's pictures from a real run of the demo: the terminal and the review page.

python -m tests.pictures
"""

from __future__ import annotations

import argparse
import asyncio
import io
import re
import tempfile
from contextlib import chdir
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from collector.demo.live import run_demo
from collector.telemetry import configure_logging
from tests.review_pictures import take

ROOT = Path(__file__).absolute().parents[1]
PICTURE = ROOT / "dashboards" / "pictures" / "demo.svg"
GOLDEN = ROOT / "collector" / "demo" / "golden.yaml"
# The stock template loads its font from a server; a picture must not.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def main() -> None:
    """Run the demo once; write what it printed as SVG, and its review page as PNG."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    configure_logging("warning")
    console = Console(
        record=True, width=96, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        data = Path("groundwatch-demo")  # as a person who follows the README sees it
        asyncio.run(run_demo(data, once=True, console=console, stop=asyncio.Event()))
        PICTURE.parent.mkdir(exist_ok=True)
        asyncio.run(take(data, GOLDEN, PICTURE.parent))
    console.save_svg(str(PICTURE), title="groundwatch demo --once", code_format=FORMAT)


if __name__ == "__main__":
    main()
