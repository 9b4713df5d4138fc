// The page: tabs, and what they share.

import { ask } from "./api.js";
import { h } from "./dom.js";
import { learn } from "./learn.js";
import { map } from "./map.js";
import { now } from "./now.js";
import { operate } from "./operate.js";
import { begin } from "./session.js";
import { tryOut } from "./try.js";

const VIEWS = [["now", "Now", now], ["try", "Try", tryOut], ["map", "Map", map], ["learn", "Learn", learn], ["operate", "Operate", operate]];

// What views share: the user who is being invented, and who looks.
class Shared extends EventTarget {
  constructor(session) {
    super();
    this.session = session;
    this.clicks = [];
    this.person = null;
    this.trial = null;
  }

  change() {
    this.dispatchEvent(new Event("change"));
  }
}

const session = await begin(() => location.reload());
const shared = new Shared(session);
const list = document.getElementById("tabs");
const panels = document.getElementById("panels");
const views = new Map();
let current = null;

for (const [name, title, make] of VIEWS) {
  const tab = h("button", { role: "tab", class: "tab", id: `tab-${name}`, type: "button", "aria-controls": `panel-${name}`, "aria-selected": "false", tabindex: "-1", text: title });
  const panel = h("div", { role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}`, hidden: true });
  tab.addEventListener("click", () => { location.hash = name; });
  list.append(tab);
  panels.append(panel);
  views.set(name, { tab, panel, make, view: null });
}

list.addEventListener("keydown", (event) => {
  const names = [...views.keys()];
  const at = names.indexOf(current);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + names.length, Home: 0, End: names.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  location.hash = names[to % names.length];
  views.get(names[to % names.length]).tab.focus();
});

function select() {
  const wanted = location.hash.slice(1);
  const name = views.has(wanted) ? wanted : "now";
  if (name === current) return;
  if (current) {
    const old = views.get(current);
    old.tab.setAttribute("aria-selected", "false");
    old.tab.tabIndex = -1;
    old.panel.hidden = true;
    old.view.hide?.();
  }
  current = name;
  document.title = `${views.get(name).tab.textContent} – slatewise`;
  const chosen = views.get(name);
  chosen.tab.setAttribute("aria-selected", "true");
  chosen.tab.tabIndex = 0;
  chosen.panel.hidden = false;
  chosen.view ??= chosen.make(chosen.panel, shared);
  chosen.view.show?.();
}

window.addEventListener("hashchange", select);
select();

ask("v1/status").then((status) => {
  document.getElementById("about").textContent = `slatewise ${status.slatewise}`;
}).catch(() => {});
