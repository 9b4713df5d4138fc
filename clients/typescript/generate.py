"""Write the TypeScript client from the OpenAPI document of the service.

    python clients/typescript/generate.py

`slatewise.js` is the client, for browsers, Node, Deno and Bun, without dependencies;
`slatewise.d.ts` has its types. What is said about routes and fields comes from the document, so
neither is to be changed by hand: change this script, or the service.
"""

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from slatewise.service.http.app import application
from slatewise.service.http.document import describe
from slatewise.service.settings import ServiceConfig

HERE = Path(__file__).parent
TAGS = ("slates", "items", "users")
"""What applications ask; the rest is for operators."""
MARK = "// Written by generate.py from the OpenAPI document: do not change it by hand.\n"

Schema = dict[str, Any]


class Operation(NamedTuple):
    """A method of the client."""

    name: str
    method: str
    path: str
    summary: str
    parameters: list[Schema]
    body: str | None
    answer: str

    @property
    def words(self) -> list[str]:
        """The arguments by name: of the path, then the body, then the query."""
        inside = [_camel(one["name"]) for one in self.parameters if one["in"] == "path"]
        asked = any(one["in"] == "query" for one in self.parameters)
        return [*inside, *(["body"] if self.body else []), *(["query"] if asked else [])]


def document() -> Schema:
    """Return the OpenAPI document of a service with the usual limits."""
    app = application(lambda metrics: None)  # type: ignore[arg-type, return-value]
    app.state.backend = SimpleNamespace(config=ServiceConfig())
    return describe(app)


def operations(described: Schema) -> Iterator[Operation]:
    """Return the operations that applications ask for."""
    for path, methods in described["paths"].items():
        for method, about in methods.items():
            if about.get("tags", [""])[0] in TAGS:
                body = about.get("requestBody", {}).get("content", {}).get("application/json")
                answer = about["responses"]["200"]["content"]["application/json"]["schema"]
                yield Operation(
                    _camel(about["operationId"].split("_v1_")[0]),
                    method.upper(),
                    path,
                    about["summary"],
                    about.get("parameters", []),
                    None if body is None else _type(body["schema"]),
                    _type(answer),
                )


def script(described: Schema) -> str:
    """Return the client."""
    methods = [_method(one) for one in operations(described)]
    return MARK + (HERE / "client.js.in").read_text().replace("  // METHODS\n", "\n".join(methods))


def declarations(described: Schema) -> str:
    """Return the types of the client."""
    asked = list(operations(described))
    schemas = described["components"]["schemas"]
    names = sorted(_reached(schemas, {t for one in asked for t in (one.body, one.answer) if t}))
    types = [_interface(name, schemas[name]) for name in names]
    methods = [_declared(one) for one in asked]
    text = (HERE / "client.d.ts.in").read_text().replace("  // METHODS\n", "\n".join(methods))
    return MARK + text + "\n" + "\n".join(types)


def _method(one: Operation) -> str:
    path = re.sub(
        r"\{(\w+)\}", lambda m: "${encodeURIComponent(" + _camel(m.group(1)) + ")}", one.path
    )
    words = [word if word != "query" else "query = {}" for word in one.words]
    more = [word for word in one.words if word in ("body", "query")]
    options = f", {{ {', '.join(more)} }}" if more else ""
    return (
        f"  {one.name}({', '.join(words)}) {{\n"
        f'    return this.#call("{one.method}", `{path}`{options});\n  }}\n'
    )


def _declared(one: Operation) -> str:
    words = []
    for word in one.words:
        if word == "body":
            words.append(f"body: {one.body}")
        elif word == "query":
            fields = [p for p in one.parameters if p["in"] == "query"]
            inside = "; ".join(f"{p['name']}?: {_type(p['schema'])}" for p in fields)
            words.append(f"query?: {{ {inside} }}")
        else:
            words.append(f"{word}: string")
    return f"  /** {one.summary}. */\n  {one.name}({', '.join(words)}): Promise<{one.answer}>;\n"


def _interface(name: str, schema: Schema) -> str:
    lines = [_comment(schema.get("description", name), ""), f"export interface {name} {{"]
    required = schema.get("required", [])
    for field, about in schema.get("properties", {}).items():
        if "description" in about:
            lines.append(_comment(about["description"], "  "))
        mark = "" if field in required else "?"
        lines.append(f"  {field}{mark}: {_type(about)};")
    return "\n".join([*lines, "}", ""])


def _comment(text: str, indent: str) -> str:
    plain = " ".join(text.split())
    lines = textwrap.wrap(plain, 90 - len(indent))
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */"
    return "\n".join([f"{indent}/**", *(f"{indent} * {line}" for line in lines), f"{indent} */"])


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "enum" in schema or "const" in schema:
        return " | ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    kind = schema.get("type")
    if kind == "array":
        inside = _type(schema.get("items", {}))
        return f"({inside})[]" if "|" in inside else f"{inside}[]"
    if kind == "object":
        patterns = list(schema.get("patternProperties", {}).values())
        values = patterns[0] if patterns else schema.get("additionalProperties", True)
        inside = _type(values) if isinstance(values, dict) else "unknown"
        return f"Record<string, {inside}>"
    return {"integer": "number", "null": "null"}.get(str(kind), str(kind or "unknown"))


def _reached(schemas: Schema, names: set[str]) -> set[str]:
    """Return the schemas that others need, with those that they need."""
    found: set[str] = set()
    while names - found:
        name = (names - found).pop()
        found.add(name)
        names |= set(re.findall(r'#/components/schemas/(\w+)"', json.dumps(schemas[name])))
    return found


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def main() -> None:
    """Write both files."""
    described = document()
    (HERE / "slatewise.js").write_text(script(described))
    (HERE / "slatewise.d.ts").write_text(declarations(described))


if __name__ == "__main__":
    main()
