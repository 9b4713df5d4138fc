// Learn: whether predictions come true, what is certain, how training went, and what nights decided.

import { ask } from "./api.js";
import { armColour, faded } from "./colours.js";
import { card, count, fill, fixed, h, percent, pill, problem, table, when } from "./dom.js";
import { figure } from "./figures.js";

const LEAST = 20; // slates of a point of the reliability curve: with fewer it is noise

const KINDS = { promoted: "good", kept: "", "not enough": "warn", failed: "bad" };

export function learn(panel) {
  const problems = h("div");
  const models = h("div");
  fill(panel, problems, models);

  async function show() {
    try {
      const { nights } = await ask("v1/nights");
      const names = Object.keys(nights);
      const learned = await Promise.all(names.map((name) => ask(`v1/models/${name}`)));
      fill(problems);
      fill(models, names.map((name, index) => model(name, nights[name], learned[index], names.length > 1)));
    } catch (error) {
      fill(problems, problem(error));
    }
  }

  return { show };
}

function model(name, nights, learned, several) {
  const reliability = figure("Predicted and observed click rates", "Neither a night nor a training has left its predictions yet.");
  const scales = figure("Posterior scale of items by views in training", "No item is on offer yet.");
  const curves = figure("Validation log-likelihood by epoch of recent versions", "No training has left its curve yet.");
  const judged = nights.find((night) => night.scores?.new?.reliability);
  const trainedHere = learned.versions.find((version) => version.reliability.length);
  const bins = judged?.scores.new.reliability ?? trainedHere?.reliability ?? [];
  const shown = bins.filter((bin) => bin.count >= LEAST);
  reliability.draw(() => ({
    traces: [
      { x: [0, 1], y: [0, 1], mode: "lines", type: "scatter", line: { dash: "dot", width: 1, color: armColour(5) }, hoverinfo: "skip", name: "as predicted" },
      { x: shown.map((bin) => bin.predicted), y: shown.map((bin) => bin.observed), mode: "lines+markers", type: "scatter", name: "observed", line: { color: armColour(0), width: 2 },
        marker: { color: armColour(0), size: shown.map((bin) => 5 + 9 * Math.sqrt(bin.count / Math.max(...shown.map((one) => one.count)))) }, customdata: shown.map((bin) => bin.count), cliponaxis: false, hovertemplate: "predicted %{x:.1%}, observed %{y:.1%}, %{customdata:,} slates<extra></extra>" },
    ],
    layout: { xaxis: { tickformat: ".0%", range: [0, 1.05 * top(shown)], title: { text: "predicted" } }, yaxis: { tickformat: ".0%", range: [0, 1.05 * top(shown)], title: { text: "observed" } } },
  }), [{ name: "predicted", number: true, of: (bin) => percent(bin.predicted) }, { name: "observed", number: true, of: (bin) => percent(bin.observed) }, { name: "slates", number: true, of: (bin) => count(bin.count) }], bins, shown);

  const span = (bin) => (bin.least === bin.most ? count(bin.least) : `${count(bin.least)}–${count(bin.most)}`);
  const x = learned.scales.map((bin) => count(bin.least));
  scales.draw(() => ({
    traces: [
      { x: [...x, ...[...x].reverse()], y: [...learned.scales.map((bin) => bin.high), ...learned.scales.map((bin) => bin.low).reverse()], fill: "toself", fillcolor: faded(armColour(0), 0.16), line: { width: 0 }, type: "scatter", mode: "lines", hoverinfo: "skip", name: "10 to 90 %" },
      { x, y: learned.scales.map((bin) => bin.median), type: "scatter", mode: "lines+markers", name: "median", line: { color: armColour(0), width: 2 }, marker: { size: 6, color: armColour(0) }, customdata: learned.scales.map((bin) => bin.items), text: learned.scales.map(span), hovertemplate: "%{text} views: %{y:.3f}, %{customdata:,} items<extra></extra>" },
    ],
    layout: { xaxis: { type: "category", title: { text: "views in training, from" } }, yaxis: { rangemode: "tozero", title: { text: "posterior scale" } } },
  }), [{ name: "views", of: span }, { name: "items", number: true, of: (bin) => count(bin.items) }, { name: "10 %", number: true, of: (bin) => fixed(bin.low, 3) }, { name: "median", number: true, of: (bin) => fixed(bin.median, 3) }, { name: "90 %", number: true, of: (bin) => fixed(bin.high, 3) }], learned.scales);

  const trained = learned.versions.filter((version) => version.curve.length);
  curves.draw(() => ({
    traces: trained.map((version, index) => ({ x: version.curve.map((_, epoch) => epoch + 1), y: version.curve, type: "scatter", mode: "lines+markers", marker: { size: 4, color: armColour(index) }, name: `version ${version.version}`, line: { color: armColour(index), width: index ? 1.2 : 2.4 }, hovertemplate: `version ${version.version}, epoch %{x}: %{y:.4f}<extra></extra>` })),
    layout: { xaxis: { title: { text: "epoch" } }, yaxis: { title: { text: "nats per interaction" } } },
  }), [{ name: "version", of: (version) => version.version }, { name: "started from", of: (version) => version.started_from ?? "nothing" }, { name: "epochs", number: true, of: (version) => count(version.epochs) }, { name: "best epoch", number: true, of: (version) => count(version.best_epoch) }, { name: "validation", number: true, of: (version) => fixed(version.validation, 4) }], trained);

  const gain = (night) => night.scores?.gain?.log_likelihood;
  return h("div", {}, several ? h("h2", { class: "model", text: `Model ${name}` }) : null,
    h("div", { class: "grid three" },
      card("Reliability", h("p", { class: "muted", text: `${judged ? `Night of ${when(judged.time)}` : "Validation users of the first training"}, after calibration. On the dotted line, predictions come true. Points of under ${LEAST} slates are only among the numbers.` }), reliability),
      card("Certainty", h("p", { class: "muted", text: "Posterior standard deviation of items: it falls with views. Items never seen keep the prior." }), scales),
      card("Training", h("p", { class: "muted", text: "Log-likelihood of held-out users after each epoch; higher is better." }), curves)),
    card("Nights", table(`Nights of model ${name}`, [
      { name: "night", of: (night) => when(night.time) },
      { name: "verdict", of: (night) => pill(night.outcome, KINDS[night.outcome]) },
      { name: "serves", of: (night) => night.serving ?? "prior" },
      { name: "slates", number: true, of: (night) => count(night.window?.slates) },
      { name: "gain, nats", number: true, of: (night) => (gain(night) ? `${fixed(gain(night).value, 4)} [${fixed(gain(night).low, 4)}, ${fixed(gain(night).high, 4)}]` : "–") },
      { name: "took", number: true, of: (night) => `${fixed(night.seconds, 0)} s` },
      { name: "why", of: (night) => h("span", { class: "verdict", text: night.why }) },
    ], nights, "No night yet. With --retrain-at they come at that time; slatewise retrain is one now.")));
}

function top(bins) {
  return Math.min(1, 1.15 * Math.max(0.05, ...bins.map((bin) => Math.max(bin.predicted, bin.observed))));
}
