"""`deploy`: what cannot be run here is held to the code, and the board to our real metrics."""

import configparser
import json
import re
import shlex
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.main import get_command

from slatewise.cli import app
from slatewise.service.http.security import read_tokens
from slatewise.service.nights.report import Night
from slatewise.service.settings import ServiceConfig
from tests.service.http.conftest import TestClient

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read_yaml(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile, each in one line."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [
        (word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines) if word
    ]


def queries() -> Iterator[str]:
    """Return all queries of the board and of the alerts."""
    for panel in json.loads((DEPLOY / "grafana/slatewise.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for group in read_yaml("prometheus/alerts.yml")["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def serve_commands() -> Iterator[list[str]]:
    """Return the command lines of `slatewise` in all files."""
    said = dict(instructions())
    yield json.loads(said["CMD"])
    yield read_yaml("compose.yaml")["services"]["service"]["command"]
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / "slatewise.service")
    yield shlex.split(unit["Service"]["ExecStart"])[1:]
    yield container()["args"]


def container() -> dict[str, Any]:
    (pod,) = [
        part["spec"]["template"]["spec"]
        for part in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
        if part["kind"] == "StatefulSet"
    ]
    found: dict[str, Any] = pod["containers"][0]
    return found


def test_every_query_is_about_metrics_and_labels_that_there_are(anvil: TestClient) -> None:
    slate = anvil.post("/v1/recommend", json={"user_id": "deploy", "k": 1}).json()
    anvil.post("/v1/feedback", json={"events": [{"slate_id": slate["slate_id"]}]})
    directory = anvil.app.state.backend.service.directory  # type: ignore[attr-defined]
    report = Night("main", time.time_ns() // 1_000, 0).write(directory / "models" / "main")
    families = list(text_string_to_metric_families(anvil.get("/metrics").text))
    report.unlink()
    labels: dict[str, set[str]] = {}
    values: dict[tuple[str, str], set[str]] = {}
    for family in families:
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        for suffix in suffixes.get(family.type, ("",)):
            labels[f"{family.name}{suffix}"] = set()
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
            for pair in sample.labels.items():
                values.setdefault((sample.name, pair[0]), set()).add(pair[1])
    assert len(labels) > 10
    for query in queries():
        assert query.count("(") == query.count(")"), query
        names = re.findall(r"\bslatewise_\w+", query)
        assert names or "up{" in query, query
        for name in names:
            assert name in labels, f"{name} is no metric: {query}"
        for name, inside in re.findall(r"(slatewise_\w+)\{([^}]*)\}", query):
            for label, how, value in re.findall(r'(\w+)(=~?)"([^"]*)"', inside):
                assert label in labels[name], f"{name} has no label {label}"
                assert how == "=~" or value in values[name, label], f"{label} is never {value}"
        for label in re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", query))):
            assert any(label in labels[name] for name in names), f"no label {label}: {query}"


def test_the_page_for_whoever_is_on_call_has_every_alert_and_its_limits() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    (group,) = read_yaml("prometheus/alerts.yml")["groups"]
    for rule in group["rules"]:
        assert f"`{rule['alert']}`" in page
    # Those that are no sum or rate stand there as they are.
    plain = [rule["expr"] for rule in group["rules"] if re.search(r"\) |\)$", rule["expr"]) is None]
    plain = [one for expr in plain for one in expr.split(" or ") if "slatewise_" in one]
    assert len(plain) == 2
    assert all(f"`{one}`" in page for one in plain)
    assert "`time() - slatewise_refreshed_timestamp_seconds > 120`" in page
    assert "time() - slatewise_refreshed_timestamp_seconds > 120" in list(queries())


def test_the_board_and_its_sources_fit_together() -> None:
    board = json.loads((DEPLOY / "grafana/slatewise.json").read_text())
    (source,) = read_yaml("grafana/datasource.yml")["datasources"]
    places = [panel["gridPos"] for panel in board["panels"]]
    assert len({(place["x"], place["y"]) for place in places}) == len(places)
    assert len({panel["id"] for panel in board["panels"]}) == len(places)
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {source["uid"]}
    compose = read_yaml("compose.yaml")
    boards = read_yaml("grafana/boards.yml")["providers"][0]["options"]["path"]
    mounted = [volume.split(":")[1] for volume in compose["services"]["grafana"]["volumes"]]
    assert f"{boards}/slatewise.json" in mounted
    (job,) = read_yaml("prometheus/prometheus.yml")["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["service:8000"]
    assert Path(job["authorization"]["credentials_file"]).name in compose["secrets"]


def test_every_command_has_options_that_there_are() -> None:
    serve = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    known = [list(command) for command in serve_commands()]
    assert len(known) == 4
    for command in known:
        assert command[0] == "serve"
        with serve.make_context("serve", [*command[1:]], resilient_parsing=False) as context:
            assert context.params["port"] == 8_000
            assert context.params["retrain_at"] == "03:00"


def test_the_image_is_made_of_files_and_extras_that_there_are() -> None:
    said = instructions()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for rest in (rest for word, rest in said if word == "COPY" and "--from" not in rest):
        for source in rest.split()[:-1]:
            assert (ROOT / source).exists(), f"COPY {source}"
            assert f"!{source}" in ignored, f".dockerignore leaves {source} out"
    installed = " ".join(rest for word, rest in said if word == "RUN")
    extras = re.findall(r"'\.\[([\w,]+)\]'", installed)
    assert extras
    assert set(",".join(extras).split(",")) <= PROJECT["optional-dependencies"].keys()
    for image in (rest.split()[0] for word, rest in said if word == "FROM"):
        name, _, tag = image.partition(":")
        version = tuple(map(int, re.findall(r"\d+", tag)[:2]))
        least = tuple(map(int, re.findall(r"\d+", PROJECT["requires-python"])))
        assert (name, version >= least) == ("python", True)
    assert (dict(said)["USER"], dict(said)["EXPOSE"]) == ("slatewise", "8000")
    assert json.loads(dict(said)["ENTRYPOINT"])[0] in PROJECT["scripts"]


def test_settings_and_tokens_are_such_as_the_service_takes() -> None:
    values = dict(
        line.split("=", 1)
        for line in (DEPLOY / "example.env").read_text().splitlines()
        if line and not line.startswith("#")
    )
    text = (DEPLOY / "compose.yaml").read_text()
    assert set(re.findall(r"\$\{(\w+):\?\}", text)) == values.keys()
    filled = yaml.safe_load(re.sub(r"\$\{(\w+):\?\}", lambda name: values[name[1]], text))
    settings = filled["configs"]["settings"]["content"]
    config = ServiceConfig.build(tomllib.loads(settings), "compose.yaml")
    assert config.store.url == "postgresql://slatewise:change-me@store/slatewise"
    environment = filled["services"]["service"]["environment"]
    tokens = read_tokens(None, environment)
    assert tokens is not None
    assert len(tokens.roles) == 3
    for image in (one["image"] for one in filled["services"].values() if "image" in one):
        assert re.search(r":v?\d", image), f"{image} has no version"
    paths = [
        volume.split(":")[0] for one in filled["services"].values() for volume in one["volumes"]
    ]
    named = [path for path in paths if not path.startswith(".")]
    assert set(named) == filled["volumes"].keys()
    assert all((DEPLOY / path).is_file() for path in paths if path.startswith("."))


def test_probes_ask_what_the_service_answers(anvil: TestClient) -> None:
    found = container()
    ports = {port["name"]: port["containerPort"] for port in found["ports"]}
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = found[name]["httpGet"]
        assert anvil.get(probe["path"]).status_code == 200
        assert ports[probe["port"]] == 8_000
    volumes = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    (stateful,) = [part["spec"] for part in volumes if part["kind"] == "StatefulSet"]
    there = {one["name"] for one in stateful["template"]["spec"]["volumes"]}
    there |= {one["metadata"]["name"] for one in stateful["volumeClaimTemplates"]}
    assert {mount["name"] for mount in found["volumeMounts"]} == there
    health = dict(instructions())["HEALTHCHECK"]
    assert re.findall(r"8000(/[\w/]+)", health) == ["/health/ready"]
