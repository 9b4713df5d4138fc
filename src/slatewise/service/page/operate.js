// Operate: items, people, arms and versions, for those who may.

import { ask } from "./api.js";
import { groupColour } from "./colours.js";
import { card, count, fill, fixed, h, percent, pill, plural, problem, say, table, when } from "./dom.js";

const PAGE = 12;
const VISITS = 8; // newest slates of a person that are shown
const STRATEGIES = ["greedy", "thompson", "in-slate-thompson", "posterior-mean", "epsilon-mix"];

export function operate(panel, { session }) {
  const parts = [items(session), people(session), experiment(session), versions(session)];
  fill(panel, parts.map((part) => part.element));
  return { show() { parts.forEach((part) => part.show?.()); } };
}

function needs(role) {
  return h("p", { class: "empty", text: `This needs a token with role ${role}.` });
}

// Ask before something that cannot be undone; resolves with whether it is meant.
function confirmed(title, words, button) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-labelledby": "sure" }, h("h2", { id: "sure", text: title }), h("p", { text: words }),
      h("div", { class: "line" }, h("button", { type: "button", class: "danger", text: button, on: { click: () => { dialog.close("yes"); } } }),
        h("button", { type: "button", text: "Cancel", on: { click: () => dialog.close("no") } })));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function items(session) {
  const search = h("input", { id: "search", type: "search", placeholder: "part of an id or a group", autocomplete: "off" });
  const rows = h("div");
  const problems = h("div");
  const next = h("button", { type: "button", text: "Next page" });
  const first = h("button", { type: "button", text: "First page", hidden: true });
  let after = "";
  let following = null;
  let waiting = null;
  let asked = 0;

  async function show() {
    const mine = asked += 1;
    try {
      const found = await ask(`v1/items?limit=${PAGE}&numbers=true&search=${encodeURIComponent(search.value.trim())}${after ? `&after=${encodeURIComponent(after)}` : ""}`);
      if (mine !== asked) return; // an answer from before a change may come after the one to it
      following = found.next;
      next.hidden = !found.next;
      first.hidden = !after;
      fill(problems);
      const models = [...new Set(found.items.flatMap((item) => Object.keys(item.numbers ?? {})))];
      const of = (item, model, key) => item.numbers?.[model]?.[key];
      const label = (name, model) => (models.length > 1 ? `${name}, ${model}` : name);
      fill(rows, table("Items", [
        { name: "item", of: (item) => item.id },
        { name: "group", of: (item) => h("span", { class: "named" }, h("span", { class: "dot", style: { background: groupColour(item.group) } }), item.group) },
        { name: "state", of: (item) => pill(item.state, item.state === "shown" ? "good" : "warn") },
        ...models.flatMap((model) => [
          { name: label("views", model), number: true, of: (item) => count(of(item, model, "views")) },
          { name: label("scale", model), number: true, of: (item) => fixed(of(item, model, "scale"), 3) },
          ...(found.items.some((item) => of(item, model, "bias")) ? [{ name: label("bias", model), number: true, of: (item) => fixed(of(item, model, "bias"), 3) }] : []),
        ]),
        ...(session.may("write") ? [{ name: "", of: (item) => h("span", { class: "line" }, toggle(item), remove(item)) }] : []),
      ], found.items, search.value ? "No item has that in its id or group." : "No item yet."));
    } catch (error) {
      fill(problems, problem(error));
    }
  }

  // Change an item and show the page again; resolves with whether that was possible.
  async function change(id, what, options) {
    try {
      await ask(`v1/items/${encodeURIComponent(id)}`, options);
      say(`${id} is ${what}.`);
      await show();
      return true;
    } catch (error) {
      fill(problems, problem(error));
      return false;
    }
  }

  function toggle(item) {
    const state = item.state === "shown" ? "hidden" : "shown";
    const act = () => change(item.id, state, { method: "PUT", body: { group: item.group, state } });
    return h("button", { type: "button", "data-item": item.id, "aria-label": `${state === "hidden" ? "Hide" : "Show"} ${item.id}`, text: state === "hidden" ? "Hide" : "Show", on: { click: act } });
  }

  function remove(item) {
    const act = async () => {
      if (!await confirmed(`Remove ${item.id}?`, "It is not shown any more. What was learned from its clicks stays. To keep it back for a while, hide it.", "Remove")) return;
      await change(item.id, "removed", { method: "DELETE" });
    };
    return h("button", { type: "button", class: "danger", "aria-label": `Remove ${item.id}`, text: "Remove", on: { click: act } });
  }

  function adding() {
    const id = h("input", { id: "new-item", placeholder: "id", required: true, maxlength: "200", autocomplete: "off" });
    const group = h("input", { id: "new-group", placeholder: "group", required: true, maxlength: "200", autocomplete: "off" });
    const wrong = h("div"); // of its own: loading the items clears their problems
    const features = h("input", { id: "new-features", placeholder: '{"price": 120}', autocomplete: "off" });
    const add = async (event) => {
      event.preventDefault();
      const name = id.value.trim();
      if (!name || !group.value.trim()) return;
      const body = { group: group.value.trim() };
      try {
        if (features.value.trim()) body.features = JSON.parse(features.value);
      } catch {
        fill(wrong, problem(new Error('Features are JSON, such as {"price": 120, "brand": "ash"}.')));
        return;
      }
      fill(wrong);
      search.value = name; // so that it is seen
      after = "";
      if (await change(name, "offered", { method: "PUT", body })) id.value = features.value = "";
    };
    const form = h("form", { class: "line", on: { submit: add } }, h("label", { for: "new-item", text: "Add or change" }), id, h("label", { for: "new-group", text: "in group" }), group,
      h("label", { for: "new-features", text: "features, if any" }), features, h("button", { type: "submit", text: "Offer" }));
    return h("div", {}, wrong, form);
  }

  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(() => { after = ""; show(); }, 200); });
  next.addEventListener("click", () => { after = following; show(); });
  first.addEventListener("click", () => { after = ""; show(); });
  return { show, element: card("Items", h("div", { class: "line" }, h("label", { for: "search", text: "Search" }), search), problems, rows, h("div", { class: "line" }, first, next), session.may("write") ? adding() : null) };
}

function people(session) {
  if (!session.may("admin")) return { element: card("People", needs("admin")) };
  const who = h("input", { id: "who", placeholder: "id of a person", autocomplete: "off" });
  const rows = h("div");
  const look = async () => {
    const id = who.value.trim();
    if (!id) return;
    try {
      const found = await ask(`v1/users/${encodeURIComponent(id)}`);
      fill(rows, h("p", {}, found.visits.length ? `The service goes by the ${count(found.visits.length)} newest slates of ${id}${found.visits.length > VISITS ? `; here are the last ${VISITS}` : ""}.` : `Nothing is kept of ${id}.`),
        found.visits.length ? table(`Slates of ${id}`, [
          { name: "time", of: (visit) => when(visit.time) },
          { name: "source", of: (visit) => visit.source },
          { name: "arm", of: (visit) => visit.arm ?? "–" },
          { name: "items", of: (visit) => h("span", { class: "verdict", title: visit.items.join(", "), text: `${visit.items.slice(0, 8).join(", ")}${visit.items.length > 8 ? ` and ${visit.items.length - 8} more` : ""}` }) },
          { name: "seen", number: true, of: (visit) => (visit.answered ? count(visit.seen) : "no answer") },
          { name: "clicked", of: (visit) => visit.clicked.join(", ") || "–" },
        ], found.visits.slice(-VISITS).reverse()) : null,
        found.visits.length ? h("button", { type: "button", class: "danger", text: `Erase ${id}`, on: { click: () => erase(id) } }) : null);
    } catch (error) {
      fill(rows, problem(error));
    }
  };
  const erase = async (id) => {
    if (!await confirmed(`Erase ${id}?`, "All that is kept of this person goes, from the log and from what training reads. It cannot be undone.", "Erase")) return;
    try {
      const gone = await ask(`v1/users/${encodeURIComponent(id)}`, { method: "DELETE" });
      fill(rows, h("p", { text: `${id} is erased, with ${plural(gone.slates, "slate")}.` }));
      say(`${id} is erased.`);
    } catch (error) {
      fill(rows, problem(error));
    }
  };
  return { element: card("People", h("form", { class: "line", on: { submit: (event) => { event.preventDefault(); look(); } } }, h("label", { for: "who", text: "Person" }), who, h("button", { type: "submit", text: "Look up" })), rows) };
}

function experiment(session) {
  const place = h("div");
  const problems = h("div");
  let arms = [];

  async function show() {
    try {
      const status = await ask("v1/status");
      arms = status.arms;
      draw(status);
    } catch (error) {
      fill(problems, problem(error));
    }
  }

  function draw(status) {
    const may = session.may("admin");
    const number = (arm) => h("input", { type: "number", min: "0", step: "any", required: true, value: String(arm.weight), "aria-label": `Weight of ${arm.name}`, class: "weight", "data-arm": arm.name });
    const name = h("input", { id: "new-arm", placeholder: "name", pattern: "[a-z0-9][a-z0-9_\\-]*", autocomplete: "off" });
    const models = status.models.map((one) => one.name);
    const model = h("select", { id: "new-model" }, models.map((one) => h("option", { value: one }, one)));
    const strategy = h("select", { id: "new-strategy" }, STRATEGIES.map((one) => h("option", { value: one }, one)));
    fill(place, table("Arms", [
      { name: "arm", of: (arm) => arm.name }, { name: "model", of: (arm) => arm.model }, { name: "strategy", of: (arm) => arm.strategy },
      { name: "share of users", number: true, of: (arm) => percent(arm.share, 0) },
      ...(may ? [{ name: "weight", number: true, of: number }, { name: "", of: (arm) => (arm.weight > 0 ? h("button", { type: "button", "aria-label": `Stop ${arm.name}`, text: "Stop", on: { click: () => put({ [arm.name]: 0 }) } }) : h("button", { type: "button", "aria-label": `Start ${arm.name}`, text: "Start", on: { click: () => put({ [arm.name]: 1 }) } })) }] : []),
    ], status.arms),
    may ? h("div", { class: "line" }, h("button", { type: "button", class: "primary", text: "Set weights", on: { click: weigh } }),
      status.changed ? h("button", { type: "button", text: "Return to the settings", on: { click: () => send("DELETE") } }) : null) : needs("admin"),
    may ? h("form", { class: "line", on: { submit: (event) => { event.preventDefault(); if (name.value) put({ [name.value]: 1 }, { [name.value]: { strategy: strategy.value, model: model.value } }); } } },
      h("label", { for: "new-arm", text: "New arm" }), name, h("label", { for: "new-strategy", text: "strategy" }), strategy,
      ...(models.length > 1 ? [h("label", { for: "new-model", text: "model" }), model] : []), h("button", { type: "submit", text: "Start" })) : null,
    h("p", { class: "muted", text: status.changed ? "The arms were changed here; they hold until they are changed again, or those of the settings are." : "The arms are those of the settings." }));
  }

  const weigh = () => {
    const inputs = [...place.querySelectorAll(".weight")];
    if (inputs.every((input) => input.reportValidity())) put(Object.fromEntries(inputs.map((input) => [input.dataset.arm, Number(input.value)])));
  };

  const put = (weights, made = {}) => {
    const body = Object.fromEntries(arms.map((arm) => [arm.name, { share: arm.weight }]));
    for (const [arm, share] of Object.entries(weights)) body[arm] = { share, ...made[arm] };
    return send("PUT", { arms: body });
  };

  async function send(method, body) {
    try {
      const answer = await ask("v1/arms", { method, body });
      fill(problems);
      say(`Shares: ${Object.entries(answer.shares).map(([name, share]) => `${name} ${percent(share, 0)}`).join(", ")}.`);
      await show();
    } catch (error) {
      fill(problems, problem(error));
    }
  }

  return { show, element: card("Experiment", problems, place) };
}

function versions(session) {
  const place = h("div");
  const problems = h("div");

  async function show() {
    try {
      const { models } = await ask("v1/status");
      fill(place, table("Models", [
        { name: "model", of: (model) => model.name },
        { name: "serves", of: (model) => model.version },
        { name: "since", whole: true, of: (model) => (model.since ? when(model.since) : "–") },
        { name: "why", of: (model) => h("span", { class: "verdict", text: model.why ?? "nothing is trained yet" }) },
        { name: "before", of: (model) => model.previous.join(", ") || "–" },
        ...(session.may("admin") ? [{ name: "", of: (model) => h("button", { type: "button", class: "danger", disabled: !model.previous.length, "aria-label": `Roll back ${model.name}`, text: "Roll back", on: { click: () => rollback(model) } }) }] : []),
      ], models), session.may("admin") ? null : needs("admin"));
    } catch (error) {
      fill(problems, problem(error));
    }
  }

  async function rollback(model) {
    if (!await confirmed(`Roll back ${model.name}?`, `Version ${model.previous[0]} serves again in place of ${model.version}, within a second. The next night starts from it.`, "Roll back")) return;
    try {
      const now = await ask(`v1/models/${model.name}/rollback`, { method: "POST" });
      fill(problems);
      say(`Version ${now.version} serves again.`);
      setTimeout(show, 1500);
    } catch (error) {
      fill(problems, problem(error));
    }
  }

  return { show, element: card("Versions", problems, place) };
}
