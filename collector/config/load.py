"""Reads the configuration from its file and its secrets from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from functools import reduce
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from collector.config.whole import Config, Resolved, Secrets
from collector.errors import ConfigError

_SECRETS = {
    "receive.ingest_token_env": "ingest_token",
    "store.password_env": "store_password",
    "journal.kafka.security.sasl_password_env": "kafka_journal_password",
    "source.kafka.security.sasl_password_env": "kafka_source_password",
    "review.session_key_env": "review_session_key",
    "review.api_token_env": "review_api_token",
    "review.handover.webhook_url_env": "webhook_url",
    "review.handover.mail.password_env": "mail_password",
}
"""Fields of `Secrets` by the key that names the environment variable; keys of judges beside."""


def load(
    path: Path | None, environ: Mapping[str, str] | None = None, *, need_secrets: bool = True
) -> Resolved:
    """Read, check and resolve the configuration.

    Args:
        path: the YAML file; None for all defaults. A relative `data_dir` starts at its folder.
        environ: where secrets are looked up; the process environment by default.
        need_secrets: False for what only reads the store: a secret that is not set is None then.

    Raises:
        ConfigError: with every problem found, each by its key path.
    """
    environ = os.environ if environ is None else environ
    raw = _read_yaml(path) if path is not None else {}
    problems: list[str] = []
    missing: list[str] = []
    raw = _with_users(raw, environ, missing)
    config: Config | None = None
    try:
        config = Config.model_validate(raw)
    except ValidationError as err:
        problems = [_describe(problem) for problem in err.errors()]
    secrets = _secrets(raw, environ, missing)
    if need_secrets:
        problems += missing
    if config is None or problems:
        raise ConfigError(problems)
    if secrets.store_password is not None:
        store = config.store.opened_with(secrets.store_password)
        config = config.model_copy(update={"store": store})
    if path is not None:
        data_dir = path.absolute().parent / config.data_dir
        config = config.model_copy(update={"data_dir": data_dir})
    return Resolved(config=config, secrets=secrets)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        raw = YAML(typ="safe", pure=True).load(path)
    except OSError as err:
        raise ConfigError([f"{path}: cannot be read: {err.strerror}"]) from err
    except YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise ConfigError([f"{path}{where}: not YAML: {getattr(err, 'problem', err)}"]) from err
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError([f"{path}: must hold keys and values, not a {type(raw).__name__}"])
    return raw


def _with_users(
    raw: dict[str, Any], environ: Mapping[str, str], problems: list[str]
) -> dict[str, Any]:
    """Put the users of review.users_env beside those of the file, to be checked like them."""
    review = raw.get("review")
    name = review.get("users_env") if isinstance(review, dict) else None
    if not isinstance(review, dict) or name is None:
        return raw
    if not (text := environ.get(str(name))):
        problems.append(f"review.users_env: the environment variable {name} is not set")
        return raw
    try:
        users = YAML(typ="safe", pure=True).load(text)
    except YAMLError:  # says what it read, which is secret
        users = None
    if not isinstance(users, dict):
        problems.append(f"review.users_env: {name} must hold lines `name: hash`")
        return raw
    own = review.get("users") or {}
    return raw | {"review": review | {"users": users | own}} if isinstance(own, dict) else raw


def _describe(problem: ErrorDetails) -> str:
    path = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = f"unknown key{_meant(problem['loc'])}; see the configuration table in the README"
    return f"{path}: {message}" if path else message


def _meant(path: tuple[int | str, ...]) -> str:
    """Return a guess at the key that was meant, or nothing where none of the section is near."""
    model: type[BaseModel] = Config
    for part in path[:-1]:
        field = model.model_fields.get(str(part))
        annotation = field.annotation if field else None
        kinds = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
        sections = [kind for kind in kinds if issubclass(kind, BaseModel)]
        if not sections:
            return ""
        model = sections[0]
    near = get_close_matches(str(path[-1]), model.model_fields, n=1)
    return f", perhaps {near[0]} is meant" if near else ""


def _secrets(raw: Mapping[str, Any], environ: Mapping[str, str], problems: list[str]) -> Secrets:
    """Look the secrets up, also when the rest is wrong, so that all is reported at once."""

    def section(value: Any, key: str) -> Mapping[str, Any]:
        inner = value.get(key) if isinstance(value, Mapping) else None
        return inner if isinstance(inner, Mapping) else {}

    found: dict[str, SecretStr] = {}
    judge_keys: dict[str, SecretStr] = {}
    judge = section(raw, "judge")
    keys = _judge_keys(section(judge, "openai")) if _asks_a_model(judge) else {}
    if (name := section(judge, "second").get("api_key_env")) is not None:
        keys["judge.second.api_key_env"] = str(name)
    for path, name in keys.items():
        if key := environ.get(name):
            judge_keys[name] = SecretStr(key)
        else:
            problems.append(
                f"{path}: the environment variable {name} is not set; "
                "set it, or set the key to null for an endpoint that wants none"
            )
    for path, name in _SECRETS.items():
        *sections, key = path.split(".")
        variable = reduce(section, sections, raw).get(key)
        if variable is None:
            continue
        if value := environ.get(str(variable)):
            found[name] = SecretStr(value)
        else:
            problems.append(f"{path}: the environment variable {variable} is not set")
    return Secrets(**found, judge_keys=judge_keys)


def _asks_a_model(judge: Mapping[str, Any]) -> bool:
    """Say whether judge.openai is used, of a configuration that may be wrong elsewhere."""
    scorers, second = judge.get("scorers"), judge.get("second")
    engines = (
        [scorer.get("engine") for scorer in scorers.values() if isinstance(scorer, Mapping)]
        if isinstance(scorers, Mapping)
        else []
    )
    elsewhere = isinstance(second, Mapping) and second.get("base_url") is None
    return "openai" in (judge.get("engine"), *engines) or elsewhere


def _judge_keys(openai: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables with keys of endpoints, by the key path that names each."""
    own = openai.get("endpoints")
    endpoints = [e for e in own if isinstance(e, Mapping)] if isinstance(own, list) else []
    named = {
        f"judge.openai.endpoints.{number}.api_key_env": endpoint["api_key_env"]
        for number, endpoint in enumerate(endpoints)
        if "api_key_env" in endpoint
    }
    if len(named) < len(endpoints) or not endpoints:
        named["judge.openai.api_key_env"] = openai.get("api_key_env", "OPENAI_API_KEY")
    return {path: str(name) for path, name in named.items() if name is not None}
