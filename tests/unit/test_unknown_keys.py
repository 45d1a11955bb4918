"""What is asked for and not known is refused by name, wherever it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from collector.config import Config, load
from collector.errors import ConfigError
from dashboards.reports import Reports
from dashboards.review.app import build_review
from tests.fakes.store import MemoryStore


def sections(model: type[BaseModel] = Config, path: tuple[str, ...] = ()) -> Iterator[str]:
    yield ".".join(path)
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from sections(inner, (*path, name))


@pytest.mark.parametrize("section", list(sections()))
def test_an_unknown_key_in_any_section_of_the_configuration_is_named(
    tmp_path: Path, section: str
) -> None:
    path = f"{section}.unheard_of" if section else "unheard_of"
    value: object = 1
    for key in reversed(path.split(".")):
        value = {key: value}
    file = tmp_path / "groundwatch.yaml"
    YAML(typ="safe", pure=True).dump(value, file)
    with pytest.raises(ConfigError) as refusal:
        load(file, {})
    assert [problem.partition(":")[0] for problem in refusal.value.problems] == [path]


@pytest.mark.parametrize("report", Reports.names)
@pytest.mark.parametrize("filter_", ["servce", "Segment", "min_score"])
async def test_an_unknown_filter_of_any_report_is_an_error_and_never_ignored(
    report: str, filter_: str
) -> None:
    app = build_review(Reports(MemoryStore(), "judge"), list, ["*"])
    asked = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", filter_: "x"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
        answer = await client.get(f"/api/{report}", params=asked)
    assert answer.status_code == 400
    assert filter_ in answer.json()["error"]
