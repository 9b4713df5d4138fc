// Map: items and groups in two dimensions, and the path of the user who is being invented.

import { ask } from "./api.js";
import { MapCanvas } from "./canvas.js";
import { groupColour } from "./colours.js";
import { card, count, fill, fixed, h, percent, problem, say, table } from "./dom.js";
import { tip, untip } from "./tip.js";

export function map(panel, shared) {
  const words = h("p", { class: "muted", id: "map-words" });
  const problems = h("div");
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Groups to show" });
  const groups = h("div");
  const find = h("input", { id: "find", placeholder: "id of an item", autocomplete: "off" });
  let data = null;
  const chosen = new Set();
  const canvas = new MapCanvas("Items in two dimensions. Arrow keys move, plus and minus zoom, 0 shows all.", {
    height: innerWidth < 640 ? 360 : Math.max(360, Math.min(620, innerHeight - 260)),
    labels: true,
    onHover: (index, event) => (index === null ? untip() : tip({ left: event.clientX, right: event.clientX, top: event.clientY - 8, bottom: event.clientY + 8 }, about(index))),
    onPick: (index) => {
      shared.clicks = [...shared.clicks, data.ids[index]].slice(-50);
      say(`The user clicks ${data.ids[index]}.`);
      follow();
    },
  });
  const button = (text, label, act) => h("button", { type: "button", "aria-label": label, title: label, text, on: { click: act } });

  fill(panel, problems, h("section", { class: "card" },
    h("div", { class: "head" }, h("h2", { text: "Items" }),
      h("form", { class: "line", on: { submit: (event) => { event.preventDefault(); seek(find.value.trim()); } } }, h("label", { for: "find", text: "Find" }), find, h("button", { type: "submit", text: "Go" })),
      h("div", { class: "line" }, button("+", "Zoom in", () => canvas.zoom(1.5)), button("−", "Zoom out", () => canvas.zoom(1 / 1.5)), button("All", "Show all items", () => canvas.fit()),
        button("Forget the user", "Forget the invented user", () => { shared.clicks = []; shared.person = null; follow(); }))),
    words, canvas.canvas, legend,
    h("p", { class: "muted", text: "Large: seen often in training. Faint: uncertain. The line is the path of the user of “Try”; click an item to add it to the clicks." })),
  card("Groups", groups));

  function about(index) {
    const group = data.groups[data.group[index]].name;
    return h("div", {}, h("p", { class: "tip-head" }, h("span", { class: "dot", style: { background: groupColour(group) } }), h("strong", { text: data.ids[index] }), h("span", { class: "muted", text: ` ${group}` })),
      h("p", { text: `seen ${count(data.views[index])} times in training, posterior scale ${fixed(data.scale[index], 2)}` }));
  }

  async function seek(id) {
    const index = data?.ids.indexOf(id) ?? -1;
    if (index >= 0) {
      canvas.focusOn(index);
      fill(problems);
      say(`${id} is in the middle of the map.`);
    } else fill(problems, h("p", { class: "note", text: data && data.ids.length < data.offered ? `${id} is not among the sampled items, or not on offer.` : `${id} is not on offer.` }));
  }

  async function follow() {
    try {
      const body = { clicks: shared.clicks, k: 8, strategies: ["in-slate-thompson"] };
      if (shared.person) body.user_id = shared.person;
      const trial = await ask("v1/try", { method: "POST", body });
      canvas.setUser(shared.clicks.length || shared.person ? trial.path : [], shared.clicks.length || shared.person ? trial.spread : null);
    } catch (error) {
      fill(problems, problem(error));
    }
  }

  function showLegend() {
    const most = [...data.groups.keys()].sort((a, b) => data.groups[b].items - data.groups[a].items).slice(0, 24);
    fill(legend, most.map((number) => {
      const group = data.groups[number];
      const toggle = h("button", { type: "button", class: "chip", "aria-pressed": "false" }, h("span", { class: "dot", style: { background: groupColour(group.name) } }), group.name);
      toggle.addEventListener("click", () => {
        if (!chosen.delete(number)) chosen.add(number);
        toggle.setAttribute("aria-pressed", String(chosen.has(number)));
        canvas.show(chosen.size ? chosen : null);
      });
      return toggle;
    }), data.groups.length > 24 ? h("span", { class: "muted", text: `and ${count(data.groups.length - 24)} smaller groups` }) : null);
  }

  return {
    async show() {
      try {
        data = await ask("v1/map");
        canvas.setData(data);
        chosen.clear();
        canvas.show(null);
        showLegend();
        const sampled = data.ids.length < data.offered ? `${count(data.ids.length)} of ${count(data.offered)} items on offer, a uniform sample made by the service` : `All ${count(data.offered)} items on offer`;
        const flat = data.explained[0] === 0 ? " Nothing is learned yet: all items are in one place." : ` The two axes hold ${percent(data.explained[0] + data.explained[1], 0)} of how items differ.`;
        words.textContent = data.offered ? `${sampled}, at the posterior means of model ${data.model}, version ${data.version}, along their two principal components.${flat}` : "No item is on offer yet. Add items under Operate, or with PUT /v1/items.";
        fill(groups, table("Groups of items", [
          { name: "group", of: (group) => h("span", { class: "named" }, h("span", { class: "dot", style: { background: groupColour(group.name) } }), group.name) },
          { name: "items", number: true, of: (group) => count(group.items) },
          { name: "views in training", number: true, of: (group) => count(group.views) },
          { name: "posterior scale", number: true, of: (group) => fixed(group.scale, 3) },
        ], [...data.groups].sort((a, b) => b.items - a.items).slice(0, 50), "No group yet."));
        await follow();
      } catch (error) {
        fill(problems, problem(error));
      }
    },
    hide: untip,
  };
}
