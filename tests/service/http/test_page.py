"""The pages of the service: commands run against the real server, tables are complete."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

from slatewise.service.http.metrics import Metrics
from tests.service.http.conftest import TOKENS, Server
from tests.test_docs import table

PAGES = [Path(__file__).parents[3] / "docs" / name for name in ("service.md", "http-api.md")]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = re.compile(r"[0-9a-f]{32}|prior-[0-9a-f]{12}")


def commands() -> list[tuple[str, str]]:
    """Return the commands of the pages, each with the output that it shows."""
    found = []
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for block in CONSOLE.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            end = next((n for n, line in enumerate(lines) if line[:1] in "{S"), len(lines))
            end = len(lines) if lines[0].startswith("SLATE=") else end
            found.append(("\n".join(lines[:end]), "".join(lines[end:])))
    return found


def said_by(script: str, server: Server, folder: Path) -> str:
    """Run commands in one shell, with the address and the token of the test's server."""
    names = f'SHOP={server.client.base_url} AUTH="Authorization: Bearer {TOKENS["admin"]}"'
    ran = subprocess.run(
        ["bash", "-ec", f"export {names}\n{script}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


@pytest.mark.xdist_group("server")
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_pages_say_what_they_show(server: Server, tmp_path: Path) -> None:
    for item in server.client.get("/v1/items", params={"limit": 1_000}).json()["items"]:
        server.client.delete(f"/v1/items/{quote(item['id'], safe='')}").raise_for_status()
    run = [one for one in commands() if not re.match(r"pip|export|slatewise|OTEL_", one[0])]
    assert sum(command.startswith("curl") for command, _ in run) == 11
    marker = "printf '\\036'\n"
    output = said_by("".join(f"{command}\n{marker}" for command, _ in run), server, tmp_path)
    for (command, expected), said in zip(run, output.split("\036"), strict=False):
        pattern = re.escape(VARYING.sub("#", expected)).replace(r"\.\.\.", ".*")
        assert re.fullmatch(pattern, VARYING.sub("#", said)), f"{command}\n{said}"
        assert said == "" or json.loads(said)


def test_every_metric_is_listed_with_its_labels() -> None:
    listed = {row[0]: row[1].replace(" ", "") for row in table("operations.md", "Metrics")}
    families = {
        name: ",".join(metric._labelnames)
        for metric in Metrics().registry._collector_to_names
        for name in [metric._name + "_total" * (metric._type == "counter")]
    }
    assert listed == families
