"""What can be said about the container file without building it."""

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

from collector.config import ListenConfig, load

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def _instructions() -> Iterator[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if line.strip():
            keyword, _, rest = line.partition(" ")
            yield keyword, rest.strip()


def _all(keyword: str) -> list[str]:
    return [rest for found, rest in _instructions() if found == keyword]


def _from_context() -> set[str]:
    copies = [shlex.split(rest) for rest in _all("COPY") if "--from" not in rest]
    return {source for *sources, _ in copies for source in sources}


def test_the_image_holds_all_packages_and_what_their_build_asks_for() -> None:
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    asked = {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "uv.lock"}
    assert _from_context() == packages | asked | {"pyproject.toml"}


def test_nothing_else_of_the_tree_is_sent_to_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == _from_context()


def test_the_extras_are_those_of_the_project() -> None:
    (extras,) = (shlex.split(rest)[0] for rest in _all("ARG") if rest.startswith("EXTRAS="))
    known = PROJECT["project"]["optional-dependencies"]
    assert all(extra in known for extra in extras.partition("=")[2].split())


def test_it_does_not_run_as_root_and_says_so_by_number() -> None:
    (user,) = _all("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)  # by name Kubernetes cannot tell
    assert f"--uid {user.partition(':')[0]} " in " ".join(_all("RUN"))


def test_its_configuration_is_accepted_and_listens_where_it_says(tmp_path: Path) -> None:
    (run,) = (rest for rest in _all("RUN") if "groundwatch.yaml" in rest)
    script = run[run.index("printf") :].replace("/etc/groundwatch/", f"{tmp_path}/")
    subprocess.run(["sh", "-c", script], check=True)
    config = load(tmp_path / "groundwatch.yaml", {}).config
    assert [str(config.data_dir)] == _all("VOLUME")
    listens = [address.split(":") for address in config.listen.model_dump().values()]
    assert {host for host, _ in listens} == {"0.0.0.0"}
    assert [port for _, port in listens] == _all("EXPOSE")[0].split()
    usual = ListenConfig().model_dump().values()
    assert [port for _, port in listens] == [address.split(":")[1] for address in usual]
    assert f":{config.listen.metrics.split(':')[1]}/healthz" in _all("HEALTHCHECK")[0]
