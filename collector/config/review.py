"""The part of the configuration that the review page reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from collector.config.section import Section


def _trace_url(value: str) -> str:
    if not re.match(r"https?://[^/\s]+/", value) or "{trace_id}" not in value:
        raise ValueError("must be such as https://tempo.example.com/trace/{trace_id}")
    return value


def _whole_path(value: Path) -> Path:
    if not value.is_absolute():
        raise ValueError("give the whole path, such as /srv/assistant/golden.yaml")
    return value


class ReviewConfig(Section):
    """The weekly review page."""

    trace_url: Annotated[str, AfterValidator(_trace_url)] | None = Field(
        None,
        description="where your tracing back end shows a trace, such as "
        "https://tempo.example.com/trace/{trace_id}",
    )
    golden_file: Annotated[Path, AfterValidator(_whole_path)] | None = Field(
        None,
        description="golden file that questions are compared with while they are edited, and that "
        "accepted ones are added to",
    )
