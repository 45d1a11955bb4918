"""One file, secrets from the environment, every problem at once by its key path."""

from pathlib import Path

import pytest

from collector.config import Config, load
from collector.errors import ConfigError


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "groundwatch.yaml"
    path.write_text(text)
    return path


def test_no_file_is_needed_to_start() -> None:
    assert load(None, {}).config == Config()


def test_an_empty_file_means_all_defaults(tmp_path: Path) -> None:
    assert load(_write(tmp_path, "# nothing yet\n"), {}).config == Config()


def test_every_problem_is_reported_at_once_with_its_key_path(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        """
judge: {engine: openai, modell: x}
assembler: {quiet_seconds: -1}
sampling: {rate: 2}
receive: {ingest_token_env: MY_TOKEN}
""",
    )
    with pytest.raises(ConfigError) as error:
        load(path, {})
    keys = {problem.partition(":")[0] for problem in error.value.problems}
    assert keys == {
        "judge.modell",
        "assembler.quiet_seconds",
        "sampling.rate",
        "judge.openai.api_key_env",
        "receive.ingest_token_env",
    }


def test_a_missing_secret_is_named_by_its_variable(tmp_path: Path) -> None:
    path = _write(tmp_path, "judge: {engine: openai, openai: {api_key_env: MY_KEY}}")
    with pytest.raises(ConfigError, match="MY_KEY"):
        load(path, {})
    secret = load(path, {"MY_KEY": "sk-very-secret"}).secrets.openai_api_key
    assert secret is not None
    assert secret.get_secret_value() == "sk-very-secret"


def test_an_endpoint_without_a_key_can_be_used(tmp_path: Path) -> None:
    path = _write(tmp_path, "judge: {engine: openai, openai: {api_key_env: null}}")
    assert load(path, {}).secrets.openai_api_key is None


def test_a_resolved_config_prints_its_secrets_masked(tmp_path: Path) -> None:
    path = _write(tmp_path, "receive: {ingest_token_env: MY_TOKEN}")
    resolved = load(path, {"MY_TOKEN": "sk-very-secret"})
    assert "sk-very-secret" not in resolved.model_dump_json()
    assert "sk-very-secret" not in repr(resolved)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "not YAML"),
        ("- a list", "must hold keys and values"),
        ("listen: {otlp_http: nonsense}", "listen.otlp_http"),
        ("listen: {otlp_http: '127.0.0.1:9464'}", "is also listen"),
        ("journal: {max_bytes: 33554432}", "receive.max_body_bytes"),
        ("segments: {rules: [{name: a}]}", "segments.rules.0"),
        (
            "segments: {rules: [{name: a, question_matches: x, equals: y}]}",
            "equals needs attribute",
        ),
        ("segments: {rules: [{name: a, question_matches: '('}]}", "segments.rules.0"),
    ],
)
def test_senseless_files_are_refused_with_the_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(_write(tmp_path, text), {})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "absent.yaml", {})
