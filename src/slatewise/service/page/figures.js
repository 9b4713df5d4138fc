// Figures by Plotly, from the package that is installed beside the service; tables where it is not.

import { dark } from "./colours.js";
import { fill, h, table } from "./dom.js";

const SCRIPT = "page/plotly.min.js";
let loading = null;
const drawn = new Map();

function load() {
  loading ??= new Promise((resolve, reject) => {
    const script = h("script", { src: SCRIPT });
    // The script brings styles of geographic maps, which we do not draw, and would put them into the
    // page as it loads. The policy forbids that: it gets an element without effect in their place.
    const create = document.createElement;
    document.createElement = (name, ...more) => create.call(document, name === "style" ? "template" : name, ...more);
    const restored = (then) => () => { document.createElement = create; then(); };
    script.addEventListener("load", restored(() => resolve(window.Plotly)));
    script.addEventListener("error", restored(() => reject(new Error("Plotly is not installed beside the service."))));
    document.head.append(script);
  });
  return loading;
}

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function layoutOf(own) {
  const text = style("--muted");
  const axis = { gridcolor: style("--line"), zeroline: false, linecolor: style("--line"), tickcolor: style("--line"), automargin: true, fixedrange: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: style("--font"), size: 12, color: text },
    margin: { l: 48, r: 12, t: 8, b: 36 }, height: own.height ?? 240, dragmode: false, hovermode: own.hovermode ?? "closest",
    hoverlabel: { bgcolor: style("--card"), bordercolor: style("--line"), font: { color: style("--text") } },
    showlegend: own.showlegend ?? true, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: text } },
    xaxis: { ...axis, ...own.xaxis }, yaxis: { ...axis, ...own.yaxis }, shapes: own.shapes,
  };
}

// Make a place for a figure; `draw(make, numbers)` fills it. `make()` returns traces and layout, and
// is asked again when the page turns dark. The numbers are the same as a table, for those who cannot
// see; where none of them can be drawn, words stand in the figure's place.
export function figure(label, empty) {
  const place = h("div", { class: "figure", role: "img", "aria-label": label });
  const note = h("p", { class: "empty", hidden: true });
  const numbers = h("div");
  const whole = h("div", { class: "figure-whole" }, place, note,
    h("details", { class: "numbers" }, h("summary", { text: "Numbers" }), numbers));
  whole.draw = async (make, columns, rows, drawable = rows) => {
    fill(numbers, table(label, columns, rows, empty));
    note.hidden = drawable.length > 0;
    place.hidden = drawable.length === 0;
    note.textContent = rows.length ? "Too little for a figure yet: the numbers are below." : empty;
    if (!drawable.length) return;
    try {
      const Plotly = await load();
      const render = () => {
        const { traces, layout } = make();
        return Plotly.react(place, traces, layoutOf(layout), { displayModeBar: false, responsive: true });
      };
      drawn.set(place, render);
      await render();
    } catch (error) {
      place.hidden = true;
      note.hidden = false;
      note.textContent = `${error.message} The figure needs it: pip install '.[serve]' in the folder of slatewise's source. The numbers are below.`;
      whole.querySelector("details").open = true;
    }
  };
  return whole;
}

dark.addEventListener("change", () => {
  for (const [place, render] of drawn) if (place.isConnected) render();
});

// A line with its interval as a band around it.
export function band(name, colour, fill_, x, values, named = true) {
  const low = values.map((one) => one.low);
  const high = values.map((one) => one.high);
  return [
    { x: [...x, ...[...x].reverse()], y: [...high, ...low.reverse()], fill: "toself", fillcolor: fill_, line: { width: 0 }, hoverinfo: "skip", showlegend: false, type: "scatter", mode: "lines" },
    { x, y: values.map((one) => one.value), name, legendgroup: name, showlegend: named, type: "scatter", mode: "lines+markers", line: { color: colour, width: 2 }, marker: { color: colour, size: 5 },
      // A band around one point would have no width.
      error_y: values.length > 1 ? undefined : { type: "data", symmetric: false, color: colour, array: values.map((one) => one.high - one.value), arrayminus: values.map((one) => one.value - one.low) },
      customdata: values.map((one) => [one.low, one.high]), hovertemplate: `${name}: %{y:.1%} [%{customdata[0]:.1%}, %{customdata[1]:.1%}]<extra></extra>` },
  ];
}
