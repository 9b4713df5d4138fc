// Elements, numbers and times: what every part of the page needs.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, react] of Object.entries(value)) element.addEventListener(event, react);
    } else if (name === "style") {
      // One by one through the object model: the policy allows no style attributes.
      for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    } else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// Replace what an element holds. Where the keyboard was inside, it goes on at the successor of where it was.
export function fill(element, ...children) {
  const was = held(element);
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
  if (was) restore(element, was);
  return element;
}

const FOCUSABLE = "a[href], button, input, select, summary, [tabindex='0']";
const named = (element) => element.dataset.item ?? element.getAttribute("aria-label") ?? (element.id || element.textContent);
const reachable = (element) => [...element.querySelectorAll(FOCUSABLE)].filter((one) => !one.disabled && one.checkVisibility());

function held(element) {
  const active = document.activeElement;
  if (!active || active === element || !element.contains(active)) return null;
  return { active, name: named(active), at: reachable(element).indexOf(active) };
}

// The successor is what has the same name, the nearest to where it was; else what stands at its place.
function restore(element, { active, name, at }) {
  if (element.contains(document.activeElement)) return;
  const all = reachable(element);
  const same = all.includes(active) ? [active] : all.filter((one) => named(one) === name);
  const near = same.sort((a, b) => Math.abs(all.indexOf(a) - at) - Math.abs(all.indexOf(b) - at))[0];
  const next = near ?? all[Math.min(Math.max(at, 0), all.length - 1)] ?? element;
  if (next === element) element.tabIndex = -1;
  next.focus({ preventScroll: true });
}

const MINUS = "\u2212";
const signed = (text) => text.replace("-", MINUS);

export const count = (value) => (value === null || value === undefined ? "–" : signed(Math.round(value).toLocaleString("en")));
export const fixed = (value, digits = 2) =>
  value === null || value === undefined || !Number.isFinite(value) ? "–" : signed(value.toFixed(digits));
export const percent = (value, digits = 1) =>
  value === null || value === undefined || !Number.isFinite(value) ? "–" : signed((100 * value).toFixed(digits)) + " %";
export const interval = (one, digits = 1) =>
  one && one.low !== null ? `${fixed(100 * one.low, digits)} to ${fixed(100 * one.high, digits)}` : "–";

export function milliseconds(seconds) {
  if (seconds === null || !Number.isFinite(seconds)) return "–";
  const ms = 1000 * seconds;
  return ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
}

// A number of things: "1 day", "2,000 days".
export const plural = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

export function age(iso) {
  const seconds = (Date.now() - Date.parse(iso)) / 1000;
  if (!Number.isFinite(seconds)) return "–";
  const steps = [[60, "s", 1], [3600, "min", 60], [86400, "h", 3600], [Infinity, "d", 86400]];
  const [, unit, size] = steps.find(([most]) => Math.max(seconds, 0) < most);
  return `${Math.max(0, Math.round(seconds / size))} ${unit}`;
}

export function when(iso) {
  const time = new Date(iso);
  return Number.isNaN(time.valueOf()) ? "–" : time.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

// Say something to people who listen to the page instead of looking at it.
export function say(text) {
  const region = document.getElementById("said");
  if (region) region.textContent = text;
}

export function table(caption, columns, rows, empty = "Nothing yet.") {
  if (!rows.length) return h("p", { class: "empty", text: empty });
  const cell = (value, column, kind = "td") =>
    h(kind, { class: column.number ? "number" : column.whole ? "whole" : undefined }, value instanceof Node || Array.isArray(value) ? value : String(value ?? "–"));
  const head = columns.map((column) => h("th", { scope: "col", class: column.number ? "number" : undefined, text: column.name }));
  const body = rows.map((row) => h("tr", {}, columns.map((column, index) => {
    const made = cell(column.of(row), column, index === 0 ? "th" : "td");
    if (index === 0) made.setAttribute("scope", "row");
    return made;
  })));
  const place = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "unseen", text: caption }), h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)));
  widths.observe(place);
  return place;
}

// A table that is wider than its card says so: on a phone nothing else tells of columns to the right.
const widths = new ResizeObserver((entries) => entries.forEach(({ target }) => target.classList.toggle("wide", target.scrollWidth > target.clientWidth + 1)));

export function problem(error) {
  const lines = [h("strong", { text: error.message || String(error) })];
  if (error.remedy) lines.push(h("span", { text: ` ${error.remedy}` }));
  return h("p", { class: "problem", role: "alert" }, lines);
}

export function card(title, ...children) {
  return h("section", { class: "card" }, h("h2", { text: title }), ...children);
}

export const pill = (text, kind = "") => h("span", { class: `pill ${kind}`, text });
