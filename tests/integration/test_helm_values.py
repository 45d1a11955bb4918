"""What values the Helm chart takes, and how it refuses the others."""

import json
import re
from pathlib import Path
from typing import Any

import helm_python
import pytest
from typer.testing import CliRunner

from collector.cli import app
from collector.config import Config, load
from collector.errors import ConfigError
from tests.helm_chart import CHART, objects, read_yaml, rendered, value_rows

KAFKA = {"brokers": ["k:9092"]}
SHARED = {"journal": {"kafka": KAFKA}, "store": {"url": "http://ch:8123/db"}}
ROLES = {"mode": "roles", "config": SHARED}


def _file(values: dict[str, Any]) -> str:
    """Return the program's file among what the chart makes of the values."""
    (one,) = objects({"configmap.yaml": rendered(values)["configmap.yaml"]})
    text: str = one["data"]["groundwatch.yaml"]
    return text


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"replica": 2}, "additional properties 'replica' not allowed"),
        ({"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
        ({"replicas": "two"}, "at '/replicas': got string, want integer"),
        ({"persistence": {"size": "a lot"}}, "at '/persistence/size'"),
        ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy'"),
        ({"config": {"judge": {"modell": "x"}}}, "at '/config/judge': .*'modell' not allowed"),
        ({"config": {"sampling": {"rate": 2}}}, "at '/config/sampling/rate': maximum"),
        ({"config": {"listen": {}}}, "'listen' not allowed"),
        ({"config": {"data_dir": "/x"}}, "'data_dir' not allowed"),
        ({"config": {"store": {"url": "chdb:///x"}}}, "at '/config/store/url'"),
        ({"config": {"store": {"url": "https://u:pw@h/d"}}}, "at '/config/store/url'"),
        ({"config": {"judge": {"openai": {"base_url": "https://u:pw@h"}}}}, "base_url"),
        ({"secretEnv": {"KEY": "sk-123"}}, "at '/secretEnv/KEY': got string, want object"),
        ({"secretEnv": {"a b": {"name": "n", "key": "k"}}}, "propertyName 'a b'|'a b'"),
        ({"keda": {"prometheus": "http://u:pw@p"}}, "at '/keda/prometheus'"),
        ({"replicas": 2}, "set config.journal.kafka and config.store.url"),
        ({"replicas": 2, "config": {"journal": {"kafka": KAFKA}}}, "replicas: more than one"),
        ({"keda": {"enabled": True}}, "replicas: more than one"),
        ({"mode": "shared"}, "at '/mode': value must be one of"),
        ({"roles": {"judges": {}}}, "at '/roles': .*'judges' not allowed"),
        ({"roles": {"review": {"keda": {}}}}, "at '/roles/review': .*'keda' not allowed"),
        ({"roles": {"judge": {"replicas": 0}}}, "at '/roles/judge/replicas': minimum"),
        ({"mode": "roles"}, "mode: roles needs a journal and a store"),
        ({"mode": "roles", "config": {"journal": {"kafka": KAFKA}}}, "config.store.url"),
        (ROLES | {"replicas": 3}, "replicas: is for mode single"),
        (ROLES | {"keda": {"enabled": True}}, "keda.enabled: is for mode single"),
        (ROLES | {"autoscaling": {"enabled": True}}, "autoscaling.enabled: is for mode single"),
        (
            {"roles": {"judge": {"keda": {"enabled": True}}}},
            "roles.judge.keda.enabled: needs mode: roles",
        ),
        (
            ROLES | {"roles": {"processor": {"replicas": 13}}},
            "roles.processor.replicas: only 12 pods get work",
        ),
        (
            ROLES | {"roles": {"judge": {"keda": {"enabled": True, "maxReplicas": 13}}}},
            "roles.judge.keda.maxReplicas: only 12 pods get work",
        ),
        (
            ROLES | {"roles": {"receiver": {"autoscaling": {"enabled": True, "minReplicas": 7}}}},
            "roles.receiver.autoscaling.minReplicas: is above maxReplicas",
        ),
        (ROLES | {"roles": {"judge": {"keda": {"enabled": True}}}}, "keda.prometheus: needed"),
        (
            ROLES
            | {
                "roles": {"review": {"replicas": 2}},
                "config": {**SHARED, "review": {"users_env": "REVIEWERS"}},
                "secretEnv": {"REVIEWERS": {"name": "n", "key": "k"}},
            },
            "config.review.session_key_env: needed where several pods",
        ),
        (
            {"config": {"receive": {"ingest_token_env": "TOKEN"}}, "env": {"TOKEN": "hunter2"}},
            "env.TOKEN: config.receive.ingest_token_env names a secret; give it by secretEnv",
        ),
        (
            {
                "config": {
                    "review": {"users": {"Ada": "$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA"}}
                }
            },
            "config.review.users: hashes of passwords would lie in a ConfigMap",
        ),
        (
            {"env": {"A": "b"}, "secretEnv": {"A": {"name": "n", "key": "k"}}},
            "env.A: secretEnv gives it too",
        ),
        (
            {"config": SHARED, "autoscaling": {"enabled": True, "maxReplicas": 13}},
            "autoscaling.maxReplicas: only 12 pods get work",
        ),
        (
            {"config": SHARED, "autoscaling": {"enabled": True, "minReplicas": 9}},
            "autoscaling.minReplicas: is above maxReplicas",
        ),
        ({"config": SHARED, "keda": {"enabled": True}}, "keda.prometheus: needed"),
        (
            {"config": SHARED, "keda": {"enabled": True}, "autoscaling": {"enabled": True}},
            "keda.enabled: autoscaling.enabled sets the number of pods too",
        ),
        (
            {"config": {"judge": {"engine": "openai"}}},
            r"secretEnv: config.judge.openai.api_key_env names OPENAI_API_KEY; add OPENAI_API_KEY",
        ),
        (
            {"config": {"receive": {"ingest_token_env": "TOKEN"}}},
            "secretEnv: config.receive.ingest_token_env names TOKEN",
        ),
        (
            {
                "config": {
                    "judge": {
                        "engine": "openai",
                        "openai": {"endpoints": [{"base_url": "http://a", "api_key_env": "A"}]},
                    }
                }
            },
            "config.judge.openai.endpoints.0.api_key_env names A",
        ),
    ],
)
def test_nonsense_is_refused_by_its_key(values: dict[str, Any], told: str) -> None:
    with pytest.raises(helm_python.HelmError, match=told):
        rendered(values)


def test_large_numbers_and_nulls_reach_the_program(tmp_path: Path) -> None:
    path = tmp_path / "groundwatch.yaml"
    openai = {"api_key_env": None, "base_url": "http://vllm:8000/v1"}
    values = {
        "journal": {"max_bytes": 8_589_934_593},
        "judge": {"engine": "openai", "openai": openai},
    }
    path.write_text(_file({"config": values}))
    result = CliRunner().invoke(app, ["check-config", "-c", str(path)], env={})
    config = json.loads(result.output)["config"]
    assert config["journal"]["max_bytes"] == 8_589_934_593
    assert config["judge"]["openai"]["api_key_env"] is None


SECRETS: dict[str, Any] = {
    "receive": {"ingest_token_env": "A"},
    "store": {"url": "http://u@ch:8123/db", "password_env": "B"},
    "journal": {
        "kafka": {
            "brokers": ["k:1"],
            "security": {
                "sasl_mechanism": "PLAIN",
                "sasl_user": "u",
                "sasl_password_env": "C",
            },
        }
    },
    "source": {
        "kafka": {
            "brokers": ["k:1"],
            "security": {
                "sasl_mechanism": "PLAIN",
                "sasl_user": "u",
                "sasl_password_env": "D",
            },
        }
    },
    "review": {
        "users_env": "E",
        "session_key_env": "F",
        "api_token_env": "G",
        "public_url": "https://r",
        "handover": {
            "at": "mon 08:00",
            "webhook_url_env": "H",
            "mail": {
                "host": "h",
                "sender": "a@b",
                "to": ["a@b"],
                "user": "u",
                "password_env": "I",
            },
        },
    },
    "judge": {
        "second": {"rate": 0.1, "model": "m", "base_url": "http://m/v1", "api_key_env": "J"},
        "engine": "openai",
        "openai": {
            "api_key_env": "K",
            "endpoints": [
                {"base_url": "http://a/v1", "api_key_env": "L"},
                {"base_url": "http://b/v1"},
                {"base_url": "http://c/v1", "api_key_env": None},
            ],
        },
    },
}
OTHERS = [
    {},
    {"judge": {"engine": "openai"}},
    {"judge": {"engine": "openai", "openai": {"api_key_env": None}}},
    {"judge": {"openai": {"api_key_env": "UNUSED"}}},
    {"judge": {"scorers": {"answer_relevance": {"rate": 0.5, "engine": "openai"}}}},
    {"judge": {"second": {"rate": 0.1, "model": "m"}}},
]


@pytest.mark.parametrize("config", [SECRETS, *OTHERS])
def test_the_chart_asks_for_the_secrets_that_the_program_would_miss(
    config: dict[str, Any], tmp_path: Path
) -> None:
    given: dict[str, Any] = {}
    while True:
        try:
            rendered({"config": config, "secretEnv": given})
            break
        except helm_python.HelmError as err:
            (variable,) = re.findall(r"secretEnv: config\.\S+ names (\w+); add", str(err))
            assert variable not in given
            given[variable] = {"name": "n", "key": "k"}
    path = tmp_path / "groundwatch.yaml"
    path.write_text(_file({"config": config, "secretEnv": given}))
    try:
        load(path, {})
        missed = set()
    except ConfigError as err:
        missed = set(re.findall(r"environment variable (\w+) is not set", " ".join(err.problems)))
    assert set(given) == missed


def test_every_key_that_names_a_secret_is_among_those_asked_for() -> None:
    def named(part: Any) -> set[str]:
        if isinstance(part, dict):
            inner = set().union(*map(named, part.values()))
            return inner | {key for key in part if isinstance(key, str) and key.endswith("_env")}
        return set().union(*map(named, part)) if isinstance(part, list) else set()

    schema = Config.model_json_schema()
    del schema["$defs"]["EvaluationConfig"], schema["$defs"]["TargetConfig"]
    known = {key for model in schema["$defs"].values() for key in named(model["properties"])}
    assert named(SECRETS) == known


def test_no_other_key_of_the_program_holds_a_secret_itself() -> None:
    models = Config.model_json_schema()["$defs"].items()
    held = {
        (name, key)
        for name, model in models
        for key, field in model["properties"].items()
        if '"writeOnly": true' in json.dumps(field)
    }
    assert held == {("ReviewConfig", "users")}  # refused above


def test_every_value_is_described() -> None:
    described = {key for key, _, _ in value_rows()}

    def bare(values: dict[str, Any], prefix: str = "") -> list[str]:
        keys = [(f"{prefix}{key}", value) for key, value in values.items()]
        open_keys = [(key, value) for key, value in keys if key not in described]
        return [
            name
            for key, value in open_keys
            for name in (bare(value, f"{key}.") if isinstance(value, dict) else [key])
        ]

    assert bare(read_yaml((CHART / "values.yaml").read_text())) == []
    assert "secretEnv" in described
