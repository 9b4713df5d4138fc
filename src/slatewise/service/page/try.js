// Try: invent a user by clicking, and see what three strategies would show her, and why.

import { ask } from "./api.js";
import { MapCanvas } from "./canvas.js";
import { groupColour, learnGroups } from "./colours.js";
import { count, fill, fixed, h, plural, problem, say } from "./dom.js";
import { tip, untip } from "./tip.js";

const K = 8;
const NAMES = {
  greedy: ["Greedy", "highest utility, without a draw"],
  thompson: ["Thompson", "highest relevance in one draw of the posterior"],
  "in-slate-thompson": ["In-slate Thompson", "a new draw for each position"],
};
const SHOWN_AS = { good: "greedy shows it too", uncertain: "here because it might be better than its mean", chance: "drawn by chance" };

export function tryOut(panel, shared) {
  const clicked = h("ol", { class: "chips", "aria-label": "Items that the user clicked" });
  const nobody = h("p", { class: "empty", text: "A new user without clicks. Click an item in a slate to see the slates change." });
  const slates = h("div", { class: "slates" });
  const problems = h("div");
  const canvas = new MapCanvas("Where the user is among the items", { height: 260 });
  const find = h("input", { id: "add-item", list: "found-items", placeholder: "id or group", autocomplete: "off" });
  const found = h("datalist", { id: "found-items" });
  const person = h("input", { id: "person", placeholder: "id", autocomplete: "off" });
  let seed = 1;
  let before = new Map();
  let asking = null;

  const form = (label, input, button, act) => h("form", { class: "line", on: { submit: (event) => { event.preventDefault(); if (input.value.trim()) act(input.value.trim()); } } },
    h("label", { for: input.id, text: label }), input, h("button", { type: "submit", text: button }));
  find.addEventListener("input", async () => {
    const some = await ask(`v1/items?limit=20&search=${encodeURIComponent(find.value)}`).catch(() => ({ items: [] }));
    fill(found, some.items.map((item) => h("option", { value: item.id }, item.group)));
  });
  const mayLook = shared.session.may("admin");
  fill(panel,
    h("div", { class: "grid side" },
      h("section", { class: "card" },
        h("h2", { text: "The user" }), nobody, clicked,
        h("div", { class: "line" },
          h("button", { type: "button", class: "primary", text: "Draw again", on: { click: () => { seed += 1; refresh("Drawn again."); } } }),
          h("button", { type: "button", text: "Start over", on: { click: () => { shared.clicks = []; shared.person = null; person.value = ""; refresh("A new user."); } } })),
        form("Add a click on", find, "Click", (id) => { find.value = ""; click(id); }), found,
        mayLook ? form("History of person", person, "Look up", (id) => { shared.person = id; shared.clicks = []; refresh(`The history of ${id}.`); }) : h("p", { class: "muted", text: "A token with role admin can begin with a person's history." }),
        problems),
      h("section", { class: "card" }, h("h2", { text: "The state of the user" }),
        h("p", { class: "muted", text: "The path of the user from the start (thin) to now (dot), with its uncertainty (shade). Rings are the items of the slates." }), canvas.canvas)),
    slates, h("p", { class: "muted key" }, "Bars are the relevance averaged over the posterior, thin lines its uncertainty, so they need not fall from one position to the next; ", h("span", { class: "mark", "aria-hidden": "true", text: "?" }), " marks what greedy would not show. Point at an item, or touch “why”, to see what each term adds. Terms that see the whole slate can give an item another relevance in another slate."));

  function click(id) {
    shared.clicks = [...shared.clicks, id].slice(-50);
    refresh(`Clicked ${id}.`);
  }

  async function refresh(words) {
    asking?.abort();
    asking = new AbortController();
    untip();
    try {
      const body = { clicks: shared.clicks, k: K, seed };
      if (shared.person) body.user_id = shared.person;
      const trial = await ask("v1/try", { method: "POST", body, signal: asking.signal });
      shared.trial = trial;
      show(trial);
      fill(problems, trial.notes.map((note) => h("p", { class: "note", text: note })),
        trial.unknown.length ? h("p", { class: "note", text: `Not known to the model, and without influence: ${trial.unknown.join(", ")}.` }) : null);
      shared.change();
      say(`${words ?? ""} ${trial.slates.map((slate) => `${NAMES[slate.strategy]?.[0] ?? slate.strategy}: ${slate.items.slice(0, 3).map((item) => item.id).join(", ")}`).join(". ")}`);
    } catch (error) {
      if (error.name !== "AbortError") fill(problems, problem(error));
    }
  }

  function show(trial) {
    nobody.hidden = trial.clicked.length > 0;
    nobody.textContent = shared.person ? `Nothing is kept of ${shared.person}.` : "A new user without clicks. Click an item in a slate to see the slates change.";
    const own = trial.clicked.length - shared.clicks.length;
    fill(clicked, trial.clicked.map((item, index) => h("li", { class: "chip" },
      h("span", { class: "dot", style: { background: groupColour(item.group) } }), h("span", { text: item.id, title: item.group }),
      index >= own ? h("button", { type: "button", class: "remove", "aria-label": `Take back the click on ${item.id}`, text: "×", on: { click: () => { shared.clicks = shared.clicks.filter((_, at) => at !== index - own); refresh("Taken back."); } } }) : null)));
    const most = Math.max(1e-9, ...trial.slates.flatMap((slate) => slate.items.map((item) => item.relevance + item.uncertainty)));
    const seen = new Map();
    fill(slates, trial.slates.map((slate) => {
      const [title, words] = NAMES[slate.strategy] ?? [slate.strategy, ""];
      const old = before.get(slate.strategy);
      seen.set(slate.strategy, new Set(slate.items.map((item) => item.id)));
      return h("section", { class: "card slate" }, h("h2", { text: title }), h("p", { class: "muted", text: words }),
        slate.items.length ? h("ol", { class: "items", "data-strategy": slate.strategy }, slate.items.map((item) => row(item, most, old && !old.has(item.id))))
          : h("p", { class: "empty", text: "Nothing is on offer. Add items under Operate, or with PUT /v1/items." }));
    }));
    before = seen;
    canvas.setUser(trial.path, trial.spread, trial.slates.flatMap((slate) => slate.items.map((item) => [item.x, item.y])));
  }

  function row(item, most, fresh) {
    const colour = groupColour(item.group);
    const why = () => tip(list, explanation(item));
    const hovered = (act) => (event) => { if (event.pointerType === "mouse") act(); };
    const list = h("li", { class: fresh ? "item fresh" : "item", on: { pointerenter: hovered(why), pointerleave: hovered(untip) } },
      h("button", { type: "button", class: "pick", "aria-describedby": "tip", "data-item": item.id, on: { click: () => click(item.id), focus: (event) => { if (event.target.matches(":focus-visible")) why(); }, blur: untip } },
        h("span", { class: "swatch", style: { background: colour } }),
        h("span", { class: "what" }, h("span", { class: "id", text: item.id }), h("span", { class: "group", text: item.group })),
        h("span", { class: "gauge", "aria-hidden": "true" },
          h("span", { class: "gauge-value", style: { width: `${100 * item.relevance / most}%`, background: colour } }),
          h("span", { class: "gauge-spread", style: { left: `${100 * Math.max(0, item.relevance - item.uncertainty) / most}%`, width: `${100 * (Math.min(item.uncertainty, item.relevance) + item.uncertainty) / most}%` } })),
        h("span", { class: "relevance" }, h("span", { class: "unseen", text: "relevance " }), digits(item.relevance, most), h("span", { class: "muted", text: ` ± ${digits(item.uncertainty, most)}` }))),
      // Where nothing hovers, a touch on the item is a click of the user: the reasons have their own.
      h("button", { type: "button", class: "why", "aria-label": `Why ${item.id}`, text: "why", on: { click: why, blur: untip } }),
      item.shown_as === "good" ? null : h("span", { class: "mark", title: SHOWN_AS[item.shown_as], role: "img", "aria-label": SHOWN_AS[item.shown_as], text: "?" }));
    return list;
  }

  return {
    async show() {
      try {
        const items = await ask("v1/map?limit=4000");
        learnGroups(items.groups.map((group) => group.name));
        canvas.setData(items);
      } catch (error) {
        fill(problems, problem(error));
      }
      await refresh();
    },
    hide: untip,
  };
}

// As many digits as the largest of all slates deserves, so that numbers stand under each other.
const digits = (value, most) => fixed(value, Math.min(8, Math.max(2, 2 - Math.floor(Math.log10(most)))));

function explanation(item) {
  const most = Math.max(1e-9, ...Object.values(item.adds).map(Math.abs));
  const bars = Object.entries(item.adds).filter(([, value]) => value !== 0).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).map(([name, value]) => {
    const width = `${50 * Math.abs(value) / most}%`;
    return h("tr", {}, h("th", { scope: "row", text: name.replaceAll("_", " ") }),
      h("td", { class: "diverging" }, h("span", { class: value < 0 ? "less" : "more", style: value < 0 ? { right: "50%", width } : { left: "50%", width } })),
      h("td", { class: "number", text: `${value > 0 ? "+" : ""}${fixed(value, 2)}` }));
  });
  const total = Object.values(item.adds).reduce((a, b) => a + b, 0);
  return h("div", {},
    h("p", { class: "tip-head" }, h("span", { class: "dot", style: { background: groupColour(item.group) } }), h("strong", { text: item.id }), h("span", { class: "muted", text: ` ${item.group}` })),
    h("p", { text: `${SHOWN_AS[item.shown_as]}; ${item.greedy_rank ? `greedy rank ${count(item.greedy_rank)}` : "greedy rank above 200"}, seen ${plural(item.views, "time")} in training${item.nearest_click ? `, closest to ${item.nearest_click}` : ""}.` }),
    h("table", { class: "adds" }, h("caption", { text: "What each term adds to the utility" }), h("tbody", {}, bars,
      h("tr", { class: "total" }, h("th", { scope: "row", text: "utility" }), h("td"), h("td", { class: "number", text: fixed(total, 2) })))));
}
