"""Renews the generated parts of the Helm chart: python -m tests.helm_chart; --check compares.

These are the schema of `config`, taken from the program's own, the table of values in the chart's
README, and the rendered examples.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import helm_python
from ruamel.yaml import YAML

from collector.config import Config

HELM = Path(__file__).parents[1] / "helm"
CHART = HELM / "groundwatch"
SCHEMA, README = CHART / "values.schema.json", CHART / "README.md"

OWN_KEYS = ("data_dir", "listen", "evaluation")
"""Keys of the program that belong to the pod, or to commands that no pod runs."""
_WITHOUT_PASSWORD = {
    ("StoreConfig", "url"): r"^https?://([^:/@]+@)?[^/@]+(/[^?#@]*)?$",
    ("OpenAIConfig", "base_url"): "^[^@]*$",
    ("EndpointConfig", "base_url"): "^[^@]*$",
}
_LINE = re.compile(r"( *)(?:# (?P<words>.*)|(?P<key>[\w.]+):(?: .*)?)")


def read_yaml(text: str) -> Any:
    """Return what a YAML text holds."""
    return YAML(typ="safe", pure=True).load(text)


def rendered(
    values: dict[str, Any] | None = None, *, version: str | None = None, **release: Any
) -> dict[str, str]:
    """Render the chart by Helm's engine; return the text of each template by its name.

    Args:
        values: what differs from the defaults.
        version: of the chart, in place of its own.
        release: its name, and so on.

    Raises:
        helm_python.HelmError: the values are refused.
    """
    about = {"name": "watch", "namespace": "rag", **release}
    return dict(_rendered(json.dumps(values), version, tuple(about.items())))


@cache
def _rendered(
    values_json: str, version: str | None, release: tuple[tuple[str, Any], ...]
) -> dict[str, str]:
    """Render once for all tests that ask for the same: loading a chart takes longest."""
    values = json.loads(values_json)
    with _loaded(version) as loaded:
        loaded.validate_schema(loaded.merge_values(values))
        texts = loaded.render(values, **dict(release))
    return {Path(path).name: text for path, text in texts.items()}


@contextmanager
def _loaded(version: str | None) -> Iterator[helm_python.Chart]:
    """Load a copy without links, since Helm reports each link that it follows."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / CHART.name
        shutil.copytree(CHART, copy)
        if version is not None:
            about = copy / "Chart.yaml"
            about.write_text(
                re.sub(r"(?m)^(version|appVersion): .*", rf"\1: {version}", about.read_text())
            )
        with helm_python.Chart.load(copy) as loaded:
            yield loaded


def objects(texts: dict[str, str]) -> list[dict[str, Any]]:
    """Return the Kubernetes objects of rendered templates."""
    yaml = YAML(typ="safe", pure=True)
    manifests = (text for name, text in texts.items() if name.endswith(".yaml"))
    return [one for text in manifests for one in yaml.load_all(text) if one]


def examples() -> dict[str, dict[str, Any]]:
    """Return the values of each example by its name."""
    return {
        path.parent.name: read_yaml(path.read_text())
        for path in sorted((HELM / "examples").glob("*/values.yaml"))
    }


def renewed() -> dict[Path, str]:
    """Return the text that each generated file should hold."""
    texts = {SCHEMA: _schema()}
    if SCHEMA.read_text() == texts[SCHEMA]:  # else Helm would read the old one
        for name, values in examples().items():
            texts[HELM / "examples" / name / "rendered.yaml"] = _manifest(rendered(values))
    before, begin, rest = README.read_text().partition("<!-- values:begin -->\n")
    _, end, after = rest.partition("<!-- values:end -->")
    rows = "".join(
        f"| `{key}` | `{json.dumps(default)}` | {words} |\n" for key, default, words in value_rows()
    )
    table = f"| value | default | meaning |\n|---|---|---|\n{rows}"
    return texts | {README: before + begin + table + end + after}


def _manifest(texts: dict[str, str]) -> str:
    kept = {name: text.strip().removeprefix("---\n") for name, text in texts.items()}
    return "".join(
        f"---\n# {name}\n{text}\n"
        for name, text in sorted(kept.items())
        if text and name.endswith(".yaml")
    )


def value_rows() -> Iterator[tuple[str, Any, str]]:
    """Yield (key path, default, meaning) for each value that has a comment."""
    text = (CHART / "values.yaml").read_text()
    values, path, words = read_yaml(text), [""], list[str]()
    for line in text.splitlines():
        found = _LINE.fullmatch(line)
        if found and found["key"]:
            path = [*path[: len(found[1]) // 2], found["key"]]
            if words:
                default = values
                for key in path:
                    default = default[key]
                yield ".".join(path), default, " ".join(words)
        words = [*words, found["words"]] if found and found["words"] else []


def _schema() -> str:
    """Put the program's own schema in the place of `config`."""
    schema = json.loads(SCHEMA.read_text())
    config = Config.model_json_schema()
    for key in OWN_KEYS:
        del config["properties"][key]
    for (model, key), pattern in _WITHOUT_PASSWORD.items():
        field = config["$defs"][model]["properties"][key]
        for kind in field.get("anyOf", [field]):
            if kind["type"] == "string":
                kind["pattern"] = pattern
    used = _referred(config["properties"], config["$defs"])
    schema["definitions"] = {name: config["$defs"][name] for name in sorted(used)}
    schema["properties"]["config"] = {
        key: config[key] for key in ("type", "additionalProperties", "properties")
    }
    return json.dumps(schema, indent=2).replace("#/$defs/", "#/definitions/") + "\n"


def _referred(part: Any, models: dict[str, Any]) -> set[str]:
    names = set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(part)))
    return names.union(*(_referred(models[name], models) for name in names))


def main() -> int:
    """Write the files, or with --check say whether they are current."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether they are current")
    if parser.parse_args().check:
        old = [path for path, text in renewed().items() if _text(path) != text]
        for path in old:
            print(f"{path.relative_to(HELM.parent)} is out of date; run make fmt", file=sys.stderr)
        return 1 if old else 0
    SCHEMA.write_text(_schema())
    for path, text in renewed().items():
        path.write_text(text)
    return 0


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
