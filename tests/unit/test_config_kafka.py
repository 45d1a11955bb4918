"""The configuration of Kafka says what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from collector.config import load
from collector.errors import ConfigError

BROKERS = {"brokers": ["one:9092"]}


def problems(folder: Path, config: dict[str, Any], environ: dict[str, str]) -> str:
    path = folder / "groundwatch.yaml"
    YAML(typ="safe", pure=True).dump(config, path)
    with pytest.raises(ConfigError) as refused:
        load(path, environ)
    return str(refused.value)


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"brokers": []}, "journal.kafka.brokers"),
        ({"brokers": ["one"]}, "journal.kafka.brokers.0: must be host:port, such as"),
        ({"brokers": ["one:9092", "two:90920"]}, "journal.kafka.brokers.1: must be host:port"),
        (BROKERS | {"topic_prefix": "a b"}, "journal.kafka.topic_prefix"),
        (BROKERS | {"partition": 3}, "journal.kafka.partition"),
        (BROKERS | {"security": {"sasl_user": "u"}}, "give all or none"),
    ],
)
def test_what_is_wrong_with_the_journal_is_named(
    tmp_path: Path, section: dict[str, Any], named: str
) -> None:
    assert named in problems(tmp_path, {"journal": {"kafka": section}}, {})


@pytest.mark.parametrize("part", ["journal", "source"])
def test_a_password_that_is_not_there_is_named_and_one_that_is_stays_hidden(
    tmp_path: Path, part: str
) -> None:
    login = {"sasl_mechanism": "PLAIN", "sasl_user": "u", "sasl_password_env": "KAFKA_PASSWORD"}
    config = {part: {"kafka": BROKERS | {"security": login}}}
    assert f"{part}.kafka.security.sasl_password_env" in problems(tmp_path, config, {})
    resolved = load(tmp_path / "groundwatch.yaml", {"KAFKA_PASSWORD": "very secret"})
    assert "very secret" not in resolved.model_dump_json() + repr(resolved)


def test_a_source_reads_something_and_no_topic_twice(tmp_path: Path) -> None:
    nothing = BROKERS | {"traces": None, "logs": None, "signals": None}
    assert "name a topic" in problems(tmp_path, {"source": {"kafka": nothing}}, {})
    twice = BROKERS | {"traces": "t", "logs": "t"}
    assert "different topics" in problems(tmp_path, {"source": {"kafka": twice}}, {})
