"""The TypeScript client: what the document says, and what Node does with a real server."""

import json
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.service.http.conftest import TOKENS, Server

FOLDER = Path(__file__).parents[3] / "clients" / "typescript"
USE = """
import { Client, ServiceError } from "%s";

const [url, token] = process.argv.slice(1);
const client = new Client(url, { token });
await client.putItems({ items: [{ id: "a/b ä", group: "x" }, { id: "c", group: "x" }] });
const item = await client.getItem("a/b ä");
const page = await client.listItems({ limit: 1, after: undefined });
const slate = await client.recommend({ user_id: "node", k: 2 });
const clicked = slate.items[0].id;
const told = await client.feedback({ events: [{ slate_id: slate.slate_id, clicked }] });
const again = await client.feedback({ events: [{ slate_id: slate.slate_id, clicked }] });
const user = await client.getUser("node");
const erased = await client.eraseUser("node");
let refused;
try {
  await client.recommend({ k: 0 });
} catch (error) {
  refused = [error instanceof ServiceError, error.status, error.message];
}

const answers = [503, 429, "lost", 200];
const flaky = new Client("http://nowhere/", {
  fetch: async (asked, { headers, body }) => {
    const status = answers.shift();
    if (status === "lost") throw new TypeError("fetch failed");
    return new Response(JSON.stringify({ asked, headers, body }), { status });
  },
});
const kept = await flaky.feedback({ events: [] });
const never = new Client("http://nowhere", {
  attempts: 2,
  fetch: async () => new Response("gone", { status: 502 }),
});
const lost = await never.rank({ items: ["c"] }).catch((error) => [error.status, error.message]);
console.log(JSON.stringify({ item, page, slate, told, again, user, erased, refused, kept, lost }));
"""


def test_what_is_kept_is_what_the_document_says() -> None:
    made = runpy.run_path(str(FOLDER / "generate.py"))
    described = made["document"]()
    stale = "python clients/typescript/generate.py writes it anew"
    assert made["script"](described) == (FOLDER / "slatewise.js").read_text(), stale
    assert made["declarations"](described) == (FOLDER / "slatewise.d.ts").read_text(), stale


@pytest.mark.skipif(shutil.which("node") is None, reason="NOT TESTED IN NODE: it is not installed")
def test_node_asks_tells_and_is_told_what_is_wrong(server: Server) -> None:
    script = USE % (FOLDER / "slatewise.js").as_uri()
    command = ["node", "--input-type=module", "-e", script]
    url, token = str(server.client.base_url), TOKENS["admin"]
    done = subprocess.run(
        [*command, url, token], capture_output=True, text=True, timeout=300, check=False
    )
    assert not done.returncode, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["item"] == {"id": "a/b ä", "group": "x", "state": "shown"}
    assert len(said["page"]["items"]) == 1
    assert len(said["slate"]["items"]) == 2
    assert (said["told"]["recorded"], said["again"]["duplicate"]) == (1, 1)
    assert said["user"]["visits"][0]["clicked"] == [said["slate"]["items"][0]["id"]]
    assert said["erased"] == {"user_id": "node", "slates": 1, "notes": []}
    assert said["refused"][:2] == [True, 422]
    assert "k" in said["refused"][2]
    assert said["kept"]["asked"] == "http://nowhere/v1/feedback"
    assert json.loads(said["kept"]["body"]) == {"events": []}
    assert said["lost"] == [502, "gone"]
