"""The `groundwatch` command, also as `python -m collector`.

Loading the modules takes a moment; Ctrl-C ends that as quietly as anything later.
"""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line."""
    try:
        from collector.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
