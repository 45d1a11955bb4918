"""One file, secrets from the environment, every problem at once by its key path."""

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from collector.config import Config, Secrets, load
from collector.errors import ConfigError
from dashboards.review.login import password_hash


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "groundwatch.yaml"
    path.write_text(text)
    return path


def test_no_file_is_needed_to_start() -> None:
    assert load(None, {}).config == Config()


def test_an_empty_file_means_all_defaults(tmp_path: Path) -> None:
    config = load(_write(tmp_path, "# nothing yet\n"), {}).config
    assert config == Config(data_dir=tmp_path / "groundwatch-data")


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sampling: {rte: 0.1}", "sampling.rte: unknown key, perhaps rate is meant"),
        ("journal: {kafka: {brokrs: []}}", "journal.kafka.brokrs: unknown key, perhaps brokers"),
        ("segments: {zzz: 1}", "segments.zzz: unknown key; see"),
    ],
)
def test_a_mistyped_key_is_told_with_the_one_that_is_near(
    tmp_path: Path, text: str, told: str
) -> None:
    with pytest.raises(ConfigError) as error:
        load(_write(tmp_path, text), {})
    assert any(problem.startswith(told) for problem in error.value.problems)


def test_a_missing_secret_is_named_by_its_variable(tmp_path: Path) -> None:
    path = _write(tmp_path, "judge: {engine: openai, openai: {api_key_env: MY_KEY}}")
    with pytest.raises(ConfigError, match="MY_KEY"):
        load(path, {})
    secret = load(path, {"MY_KEY": "sk-very-secret"}).secrets.judge_keys["MY_KEY"]
    assert secret.get_secret_value() == "sk-very-secret"


def test_an_endpoint_without_a_key_can_be_used(tmp_path: Path) -> None:
    path = _write(tmp_path, "judge: {engine: openai, openai: {api_key_env: null}}")
    assert load(path, {}).secrets.judge_keys == {}


def test_users_come_from_the_environment_too(tmp_path: Path) -> None:
    ada, grace = password_hash("one"), password_hash("two")
    path = _write(tmp_path, f"review: {{users_env: WHO, users: {{Ada: {ada!r}}}}}")
    users = load(path, {"WHO": f"Grace: {grace}\n"}).config.review.users
    assert {name: kept.get_secret_value() for name, kept in users.items()} == {
        "Ada": ada,
        "Grace": grace,
    }
    assert not load(path, {}, need_secrets=False).config.review.users.get("Grace")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "review.users_env: the environment variable WHO is not set"),
        ("hunter2", "review.users_env: WHO must hold lines `name: hash`"),
        ("a: b: hunter2", "review.users_env: WHO must hold lines `name: hash`"),
        ("Ada: hunter2", "review.users.Ada: is no hash of a password"),
    ],
)
def test_users_that_cannot_be_read_are_told_without_their_text(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    path = _write(tmp_path, "review: {users_env: WHO}")
    with pytest.raises(ConfigError, match=problem) as error:
        load(path, {} if text is None else {"WHO": text})
    assert "hunter2" not in str(error.value)


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
        ("listen: {otlp_http: nonsense}", r"listen\.otlp_http: must be host:port, such as"),
        ("listen: {otlp_http: '127.0.0.1:99999'}", r"listen\.otlp_http: there is no port 99999"),
        ("assembler: {quiet_seconds: .inf}", r"assembler\.quiet_seconds"),
        ("judge: {scorers: {refusal: {}}}", r"judge\.scorers\.refusal\.rate"),
        ("judge: {scorers: {beauty: {rate: 1}}}", r"judge\.scorers\.beauty"),
        ("judge: {scorers: {answer_relevance: {rate: 1}}}", "answer_relevance: needs a model"),
        ("judge: {scorers: {correctness: {rate: 1}}}", "correctness needs review.golden_file"),
        ("judge: {second: {rate: 0.1}}", r"judge\.second\.model"),
        (
            "judge: {second: {rate: 1, model: b}, openai: {model: a, daily_budget_usd: 1, "
            "prices: {a: {input_usd_per_mtok: 1, output_usd_per_mtok: 1}}}}",
            "the price of b is not known",
        ),
        ("judge: {openai: {deadline_seconds: .nan}}", r"judge\.openai\.deadline_seconds"),
        ("store: {url: 'mysql://h/db'}", r"store\.url: must start with"),
        ("store: {url: 'chdb:data'}", r"store\.url: chdb needs an absolute folder"),
        ("store: {url: 'http://h:99999/db'}", r"store\.url: must be http://"),
        ("store: {cluster: main}", r"store: cluster: needs a url of a ClickHouse server"),
        ("store: {url: 'chdb:///data', cluster: main}", r"store: cluster: needs a url of"),
        ("store: {url: 'http://h/db', cluster: ''}", r"store\.cluster: "),
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


def test_a_relative_data_dir_starts_at_the_file_wherever_the_command_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    path = _write(tmp_path / "etc", "data_dir: ../data")
    monkeypatch.chdir(tmp_path)
    for given in (path, path.relative_to(tmp_path)):
        config = load(given, {}).config
        assert config.data_dir.resolve() == tmp_path / "data"
        assert config.store_url == f"chdb://{tmp_path}/data/clickhouse"
    _write(tmp_path / "etc", "data_dir: /var/lib/groundwatch")
    assert load(path, {}).config.data_dir == Path("/var/lib/groundwatch")


def test_reading_needs_no_secret(tmp_path: Path) -> None:
    path = _write(tmp_path, "{judge: {engine: openai}, receive: {ingest_token_env: MY_TOKEN}}")
    assert load(path, {}, need_secrets=False).secrets == Secrets()
    with pytest.raises(ConfigError):
        load(path, {})


@pytest.mark.parametrize("password", ["hunter2", "p:a:s", "p%40ss", "p@ss"])
def test_a_password_in_the_url_of_the_store_is_never_shown(tmp_path: Path, password: str) -> None:
    url = f"https://user:{password}@ch.example:8443/db"
    resolved = load(_write(tmp_path, f"store: {{url: '{url}'}}"), {})
    assert resolved.config.store_url == url
    shown = resolved.model_dump(mode="json")["config"]["store"]["url"]
    assert shown == "https://user:***@ch.example:8443/db"
    assert password not in repr(resolved)


@pytest.mark.parametrize("password", ["hunter2", "p:a/s?#@", "ü 1%"])
def test_the_password_of_the_store_can_come_from_the_environment(
    tmp_path: Path, password: str
) -> None:
    path = _write(tmp_path, "store: {url: 'https://user@ch.example:8443/db', password_env: CH}")
    resolved = load(path, {"CH": password})
    parts = urlsplit(resolved.config.store_url)
    assert (parts.username, unquote(parts.password or "")) == ("user", password)
    assert (parts.hostname, parts.port, parts.path) == ("ch.example", 8443, "/db")
    assert password not in repr(resolved) + json.dumps(resolved.model_dump(mode="json"))
    with pytest.raises(ConfigError, match=r"store\.password_env.*CH"):
        load(path, {})


@pytest.mark.parametrize("url", ["null", "'https://ch/db'", "'https://u:p@ch/db'", "chdb:///d"])
def test_a_password_of_nobody_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="https://user@host"):
        load(_write(tmp_path, f"store: {{url: {url}, password_env: CH}}"), {"CH": "x"})


@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/db", "http://u:hunter2@h:99999/db"])
def test_a_password_in_a_wrong_url_is_not_shown_either(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load(_write(tmp_path, f"store: {{url: '{url}'}}"), {})
    assert "hunter2" not in str(refusal.value)


def test_the_second_judge_is_asked_like_the_first_except_for_what_it_names(tmp_path: Path) -> None:
    text = """
judge:
  openai:
    endpoints: [{base_url: "http://one/v1", model: mine, requests_per_minute: 60}]
    api_key_env: null
  second: {rate: 0.1, model: other}
"""
    second = load(_write(tmp_path, text), {}).config.judge.second_openai
    assert second is not None
    (endpoint,) = second.served_by
    assert (second.model, endpoint.model, endpoint.base_url) == ("other", "other", "http://one/v1")
    assert endpoint.requests_per_minute == 60


def test_a_second_judge_elsewhere_has_a_key_of_its_own(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        "judge: {second: {rate: 0.1, model: b, base_url: 'http://b/v1', api_key_env: KEY_B}}",
    )
    resolved = load(path, {"KEY_B": "sk-b"})
    second = resolved.config.judge.second_openai
    assert second is not None
    assert [e.api_key_env for e in second.served_by] == ["KEY_B"]
    assert resolved.secrets.judge_keys["KEY_B"].get_secret_value() == "sk-b"
    with pytest.raises(ConfigError, match=r"judge\.second\.api_key_env: .* KEY_B is not set"):
        load(path, {})


def test_one_scorer_by_a_model_needs_the_key_of_the_model(tmp_path: Path) -> None:
    path = _write(tmp_path, "judge: {scorers: {refusal: {rate: 1, engine: openai}}}")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY is not set"):
        load(path, {})
    assert load(path, {"OPENAI_API_KEY": "sk"}).config.judge.asks_a_model
