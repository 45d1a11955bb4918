"""`groundwatch demo` with a model as its judge, at a price.

python -m tests.demo_with_model URL demo ...

The pictures of the dashboards show calls, tokens and money, of which the demo's own judge has none.
"""

from __future__ import annotations

import sys
from pathlib import Path

from collector import cli
from collector.config import Config
from collector.demo import live

_MODEL = "judge-1"
_PRICE = {"input_usd_per_mtok": 0.4, "output_usd_per_mtok": 1.6}


def main() -> None:
    """Run the command line; the first argument is the base URL of the model."""
    url = sys.argv.pop(1)
    plain = live._config

    def with_model(data_dir: Path, listen: dict[str, str]) -> Config:
        openai = {
            "base_url": url,
            "model": _MODEL,
            "api_key_env": None,
            "daily_budget_usd": 5,
            "prices": {_MODEL: _PRICE},
        }
        judge = {"engine": "openai", "concurrency": 8, "openai": openai}
        anywhere = dict.fromkeys(listen, "127.0.0.1:0")
        return Config.model_validate(plain(data_dir, anywhere).model_dump() | {"judge": judge})

    live._config = with_model
    cli.main()


if __name__ == "__main__":
    main()
