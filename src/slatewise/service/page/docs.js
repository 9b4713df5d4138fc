// The API as its OpenAPI document has it: every operation, with its role, fields and an example.

import { ask } from "./api.js";
import { fill, h, problem, table } from "./dom.js";
import { begin } from "./session.js";

const place = document.getElementById("document");

function show(api) {
  const byTag = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      if (!byTag.has(tag)) byTag.set(tag, []);
      byTag.get(tag).push({ path, method: method.toUpperCase(), operation });
    }
  }
  fill(place, prose(api.info.description), h("p", { class: "muted", text: `Version ${api.info.version}. The document itself is at /v1/openapi.json.` }),
    [...byTag].map(([tag, operations]) => h("section", {}, h("h2", { class: "model", text: tag }), operations.map((one) => operationOf(api, one)))));
}

function operationOf(api, { path, method, operation }) {
  const role = /role \*\*(\w+)\*\*/.exec(operation.description)?.[1];
  const body = operation.requestBody?.content?.["application/json"]?.schema;
  const answer = Object.values(operation.responses?.["200"]?.content ?? {})[0]?.schema;
  const problems = Object.entries(operation.responses ?? {}).filter(([status]) => Number(status) >= 400);
  return h("details", { class: "operation card" },
    h("summary", {}, h("span", { class: `method ${method.toLowerCase()}`, text: method }), h("code", { text: path }), h("span", { class: "summary", text: operation.summary }), h("span", { class: "pill", text: role ?? "no token" })),
    prose(operation.description.replace(/\n\nNeeds a token.*$/s, "")),
    operation.parameters?.length ? [h("h3", { text: "Parameters" }), table(`Parameters of ${method} ${path}`, [
      { name: "name", of: (one) => h("code", { text: one.name }) }, { name: "in", of: (one) => one.in }, { name: "type", of: (one) => typeOf(api, one.schema) },
      { name: "about", of: (one) => one.description ?? one.schema.description ?? "" }], operation.parameters)] : null,
    body ? [h("h3", { text: "Body" }), fields(api, body, `Body of ${method} ${path}`), h("pre", { tabindex: "0", role: "region", "aria-label": `Example of ${method} ${path}` }, h("code", { text: JSON.stringify(example(api, body), null, 2) }))] : null,
    answer ? [h("h3", { text: "Answer" }), fields(api, answer, `Answer of ${method} ${path}`)] : null,
    h("h3", { text: "Problems" }), table(`Problems of ${method} ${path}`, [{ name: "status", of: ([status]) => status }, { name: "meaning", of: ([, one]) => one.description }], problems));
}

const resolved = (api, schema) => (schema?.$ref ? schema.$ref.slice(2).split("/").reduce((at, part) => at[part], api) : schema ?? {});

function typeOf(api, schema) {
  if (!schema) return "any";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return [...new Set(schema.anyOf.map((one) => typeOf(api, one)))].join(" or ");
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.const) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${schema.items ? typeOf(api, schema.items) : "values"}`;
  if (schema.additionalProperties?.$ref) return `table of ${typeOf(api, schema.additionalProperties)}`;
  return schema.type ?? "any";
}

function fields(api, schema, caption) {
  const whole = resolved(api, schema);
  if (!whole.properties) return h("p", { class: "muted", text: whole.description ?? typeOf(api, schema) });
  return h("div", {}, whole.description ? h("p", { class: "muted", text: whole.description }) : null, table(caption, [
    { name: "field", of: ([name]) => h("code", { text: name }) },
    { name: "type", of: ([, one]) => typeOf(api, one) },
    { name: "about", of: ([name, one]) => `${whole.required?.includes(name) ? "" : "optional; "}${one.description ?? resolved(api, one).description ?? ""}` },
  ], Object.entries(whole.properties)));
}

function example(api, schema, depth = 0) {
  const one = resolved(api, schema);
  if (one.examples?.length) return one.examples[0];
  if (one.default !== undefined) return one.default;
  if (one.enum) return one.enum[0];
  if (one.anyOf) return example(api, one.anyOf[0], depth);
  if (one.type === "array") return depth < 4 ? [example(api, one.items ?? {}, depth + 1)] : [];
  if (one.properties) return Object.fromEntries(Object.entries(one.properties).filter(([name, part]) => one.required?.includes(name) || part.examples).map(([name, part]) => [name, example(api, part, depth + 1)]));
  if (one.patternProperties || one.type === "object") return {};
  return { string: "text", integer: 1, number: 0.5, boolean: true }[one.type] ?? null;
}

// Paragraphs, `code`, *stress* and **strong** of descriptions; nothing becomes markup.
function prose(text) {
  return h("div", { class: "prose" }, (text ?? "").split(/\n\n+/).map((paragraph) => h("p", {}, paragraph.replaceAll("\n", " ").split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*)/).map((part) => {
    if (part.startsWith("`")) return h("code", { text: part.slice(1, -1) });
    if (part.startsWith("**")) return h("strong", { text: part.slice(2, -2) });
    if (part.startsWith("*") && part.length > 2) return h("em", { text: part.slice(1, -1) });
    return part;
  }))));
}

await begin(() => location.reload());
try {
  show(await ask("v1/openapi.json"));
} catch (error) {
  fill(place, problem(error));
}
