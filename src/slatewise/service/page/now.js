// Now: how the arms do, what is asked of the service, what serves and why.

import { ask } from "./api.js";
import { armColour, faded } from "./colours.js";
import { age, card, count, fill, fixed, h, interval, milliseconds, percent, pill, plural, problem, table, when } from "./dom.js";
import { band, figure } from "./figures.js";

const EVERY = 5_000; // milliseconds between looks at requests
const SLOWER = 3; // every so many looks, the experiment too
const KEPT = 60; // looks that the figure of requests remembers

export function now(panel) {
  const cards = h("div", { class: "cards" });
  const notes = h("div");
  const arms = h("div");
  const loaded = h("div");
  const heard = figure("Click rate of the loaded log by day and source", "No slate is loaded.");
  const rates = figure("Click rate of each arm over time, with 95 % intervals", "No slate has been answered yet. Send feedback, and rates appear here.");
  const few = figure("Share of impressions that little-seen items get, over time", "No slate has been shown yet.");
  const traffic = figure("Requests per second for slates and feedback", "Requests are counted every five seconds: a moment.");
  const fewWords = h("p", { class: "muted" });
  const since = h("p", { class: "muted" });
  fill(panel, notes, loaded, cards,
    h("div", { class: "grid two" },
      card("Click rate by arm", since, rates),
      card("Little-seen items", fewWords, few)),
    card("Arms", arms),
    card("Requests", h("p", { class: "muted", text: "Slates and feedback of all workers of this host, since this page was opened." }), traffic));

  const looks = [];
  let experiment = null;
  let history = null;
  let timer = null;
  let turn = 0;

  async function look() {
    try {
      const status = await ask("v1/status");
      looks.push({ time: Date.now(), routes: status.routes });
      if (looks.length > KEPT) looks.shift();
      if (turn % SLOWER === 0) {
        [experiment, history] = await Promise.all([ask("v1/experiment"), ask("v1/experiment/history")]);
        await showExperiment(status);
        await showLoaded();
      }
      turn += 1;
      showCards(status);
      await showTraffic();
      fill(notes, status.notes.map((note) => h("p", { class: "note", text: note })));
    } catch (error) {
      fill(notes, problem(error));
    }
  }

  function showCards(status) {
    const made = looks.length > 1 ? [looks.at(-2), looks.at(-1)] : null;
    const perSecond = made ? rate(made, "/v1/recommend") : null;
    const total = count(status.routes["/v1/recommend"]?.requests);
    const times = quantiles(looks, "/v1/recommend");
    const last = history?.periods.at(-1)?.arms ?? {};
    const shares = Object.values(last).map((arm) => arm.little_seen).filter((value) => value !== null);
    const models = status.models.map((model) => kpi(`Model ${model.name}`, model.version.startsWith("prior") ? "prior" : `version ${model.version}`,
      model.since ? `serves for ${age(model.since)}` : "nothing is trained yet"));
    const nights = status.models.map((model) => kpi(status.models.length > 1 ? `Last night, ${model.name}` : "Last night",
      model.last_night ? model.last_night.outcome : "none yet", model.last_night ? `${age(model.last_night.time)} ago: ${model.last_night.why}` : "a night trains when slates have been answered"));
    fill(cards,
      perSecond === null ? kpi("Slates", total, "since start") : kpi("Slates", `${fixed(perSecond, perSecond < 10 ? 1 : 0)} / s`, `${total} since start`),
      kpi("Latency", milliseconds(times.half), times.most === null ? "no slates yet" : `99 % within ${milliseconds(times.most)}`),
      kpi("To little-seen items", shares.length ? percent(shares.reduce((a, b) => a + b, 0) / shares.length, 0) : "–", history?.few_views ? `share of impressions of items with under ${count(history.few_views)} views` : "share of impressions"),
      kpi("Items on offer", count(status.offered), status.dropped ? `${plural(status.dropped, "slate")} not logged` : `${count(status.queue)} waiting to be written`),
      ...models, ...nights);
  }

  async function showExperiment(status) {
    const names = Object.keys(experiment.arms);
    since.textContent = experiment.arms[experiment.reference]?.seen ? `Since ${when(experiment.since)}, clicks per slate with an answer.` : "";
    fewWords.textContent = history.few_views ? `Items that training saw fewer than ${count(history.few_views)} times: the least seen quarter of the catalogue.` : "The least seen quarter of the catalogue.";
    const periods = history.periods;
    const rows = periods.flatMap((period) => Object.entries(period.arms).map(([arm, one]) => ({ start: period.start, arm, ...one })));
    const of = (name, key) => periods.filter((period) => (period.arms[name]?.[key]?.value ?? period.arms[name]?.[key] ?? null) !== null && period.arms[name][key].value !== null);
    const columns = [{ name: "from", of: (row) => when(row.start) }, { name: "arm", of: (row) => row.arm }, { name: "answered", number: true, of: (row) => count(row.seen) }];
    await rates.draw(() => ({
      traces: names.flatMap((name, index) => {
        const parts = runs(of(name, "click_rate"), history.seconds);
        return parts.flatMap((own, part) => band(name, armColour(index), faded(armColour(index), 0.16), own.map((one) => one.start), own.map((one) => one.arms[name].click_rate), part === 0));
      }),
      layout: { yaxis: { tickformat: ".0%", rangemode: "tozero" }, xaxis: { type: "date" }, hovermode: "x unified" },
    }), [...columns, { name: "click rate", number: true, of: (row) => percent(row.click_rate.value) }, { name: "95 %", number: true, of: (row) => interval(row.click_rate) }], rows);
    await few.draw(() => ({
      traces: names.flatMap((name, index) => runs(of(name, "little_seen"), history.seconds).map((own, part) => ({ x: own.map((one) => one.start), y: own.map((one) => one.arms[name].little_seen), name, legendgroup: name, showlegend: part === 0, type: "scatter", mode: "lines+markers",
        line: { color: armColour(index), width: 2 }, marker: { color: armColour(index), size: 5 }, hovertemplate: `${name}: %{y:.0%}<extra></extra>` }))),
      layout: { yaxis: { tickformat: ".0%", rangemode: "tozero" }, xaxis: { type: "date" }, hovermode: "x unified" },
    }), [...columns, { name: "little-seen", number: true, of: (row) => percent(row.little_seen) }], rows);
    const running = new Map(status.arms.map((arm) => [arm.name, arm]));
    fill(arms, table("Arms of the experiment", [
      { name: "arm", of: (name) => h("span", { class: "named" }, h("span", { class: "dot", style: { background: armColour(names.indexOf(name)) } }), name) },
      { name: "strategy", of: (name) => (running.get(name)?.strategy ?? experiment.arms[name].strategy ?? "–").split(" ")[0] },
      { name: "share", number: true, of: (name) => percent(running.get(name)?.share ?? 0, 0) },
      { name: "users", number: true, of: (name) => count(experiment.arms[name].users) },
      { name: "answered", number: true, of: (name) => count(experiment.arms[name].seen) },
      { name: "click rate", number: true, of: (name) => percent(experiment.arms[name].click_rate.value) },
      { name: "95 %", number: true, of: (name) => interval(experiment.arms[name].click_rate) },
      { name: "best", number: true, of: (name) => percent(experiment.arms[name].best, 0) },
      { name: "verdict", of: (name) => verdict(experiment, name) },
    ], names, "No arm runs."));
  }

  // Until a slate of the service has an answer, what was loaded is all there is to see.
  async function showLoaded() {
    if (Object.values(experiment.arms).some((arm) => arm.seen)) {
      if (loaded.firstChild) fill(loaded);
      return;
    }
    const { days } = await ask("v1/loaded");
    if (!days.length) return;
    const slates = days.reduce((sum, one) => sum + one.slates, 0);
    const clicked = days.reduce((sum, one) => sum + one.clicked, 0);
    const sources = [...new Set(days.map((one) => one.source))];
    if (!loaded.firstChild) {
      fill(loaded, card("The loaded log", h("p", { id: "loaded-words" }), heard,
        h("p", { class: "line" }, h("button", { type: "button", class: "primary", text: "Try the model", on: { click: () => { location.hash = "try"; } } }),
          h("span", { class: "muted", text: "No slate of this service has an answer yet: send feedback, and the arms appear below." }))));
    }
    loaded.querySelector("#loaded-words").textContent = `${count(slates)} slates from ${day(days[0].start)} to ${day(days.at(-1).start)}, the newest ${plural(new Set(days.map((one) => one.start)).size, "day")} of the log, ${percent(clicked / slates)} of them with a click.`;
    await heard.draw(() => ({
      traces: sources.map((source, index) => {
        const own = days.filter((one) => one.source === source);
        return { x: own.map((one) => one.start), y: own.map((one) => one.clicked / one.slates), customdata: own.map((one) => one.slates), name: source, type: "scatter", mode: "lines+markers",
          line: { color: armColour(index), width: 2 }, marker: { color: armColour(index), size: 5 }, hovertemplate: `${source}: %{y:.1%} of %{customdata:,} slates<extra></extra>` };
      }),
      layout: { yaxis: { tickformat: ".0%", rangemode: "tozero" }, xaxis: { type: "date" }, hovermode: "x unified" },
    }), [{ name: "day", of: (one) => day(one.start) }, { name: "source", of: (one) => one.source }, { name: "slates", number: true, of: (one) => count(one.slates) }, { name: "click rate", number: true, of: (one) => percent(one.clicked / one.slates) }], days);
  }

  async function showTraffic() {
    const pairs = looks.slice(1).map((one, index) => [looks[index], one]);
    const rows = pairs.map((pair) => ({ time: new Date(pair[1].time).toISOString(), slates: rate(pair, "/v1/recommend"), feedback: rate(pair, "/v1/feedback"), half: quantiles(pair, "/v1/recommend").half }));
    if (rows.length === 1) rows.pop(); // one point is no line yet
    const line = (name, key, index) => ({ x: rows.map((row) => row.time), y: rows.map((row) => row[key]), name, type: "scatter", mode: "lines+markers", marker: { size: 4, color: armColour(index) }, line: { color: armColour(index), width: 2 }, hovertemplate: `${name}: %{y:.1f}/s<extra></extra>` });
    await traffic.draw(() => ({ traces: [line("slates", "slates", 0), line("feedback", "feedback", 2)], layout: { height: 180, yaxis: { rangemode: "tozero", ticksuffix: "/s" }, xaxis: { type: "date" }, hovermode: "x unified" } }),
      [{ name: "time", of: (row) => when(row.time) }, { name: "slates / s", number: true, of: (row) => fixed(row.slates, 1) }, { name: "feedback / s", number: true, of: (row) => fixed(row.feedback, 1) }, { name: "median time", number: true, of: (row) => milliseconds(row.half) }], rows);
  }

  // One look after the other: a slow answer must not meet the next one.
  async function follow(run) {
    await look();
    if (run === shown) timer = setTimeout(follow, EVERY, run);
  }

  let shown = 0;
  return {
    show() { shown += 1; looks.length = 0; follow(shown); },
    hide() { shown += 1; clearTimeout(timer); },
  };
}

const day = (iso) => new Date(iso).toLocaleDateString("en-GB", { dateStyle: "medium", timeZone: "UTC" });

// Divide periods where some are missing in between: a line across would tell of what nobody saw.
function runs(periods, seconds) {
  const found = [];
  for (const period of periods) {
    const last = found.at(-1)?.at(-1);
    if (last && Date.parse(period.start) - Date.parse(last.start) <= 2500 * seconds) found.at(-1).push(period);
    else found.push([period]);
  }
  return found;
}

function kpi(name, value, more) {
  return h("div", { class: "kpi" }, h("div", { class: "kpi-name", text: name }), h("div", { class: "kpi-value", text: value }), h("div", { class: "kpi-more", text: more, title: more }));
}

function rate([before, after], route) {
  return Math.max(0, (after.routes[route]?.requests ?? 0) - (before.routes[route]?.requests ?? 0)) / Math.max(0.001, (after.time - before.time) / 1000);
}

// Within a bucket of the histogram, times are taken for evenly spread.
function quantiles(looks, route) {
  const last = looks.at(-1)?.routes[route]?.seconds ?? [];
  const first = looks.length > 1 ? looks[0].routes[route]?.seconds ?? [] : [];
  const before = new Map(first);
  let counts = last.map(([most, number]) => [most, number - (before.get(most) ?? 0)]);
  if (!(counts.at(-1)?.[1] > 0)) counts = last; // nothing was asked meanwhile: since the start
  const total = counts.at(-1)?.[1] ?? 0;
  const at = (share) => {
    if (!total) return null;
    let [from, below] = [0, 0];
    for (const [most, number] of counts) {
      if (number >= share * total) return from + (most - from) * (share * total - below) / Math.max(1, number - below);
      [from, below] = [most, number];
    }
    return from;
  };
  return { half: at(0.5), most: at(0.99) };
}

function verdict(experiment, name) {
  const { advice } = experiment.arms[name];
  if (name === experiment.reference) return h("span", { class: "muted", text: "the reference" });
  if (!advice) return h("span", { class: "muted", text: "too early" });
  return [pill(advice.verdict, advice.stop ? "good" : ""), h("span", { class: "verdict", text: ` ${advice.words}` })];
}
