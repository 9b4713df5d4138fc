const dark = window.matchMedia('(prefers-color-scheme: dark)');
const look = () => {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: colour('--grid'), zerolinecolor: colour('--soft') };
  const changes = {
    'font.color': colour('--ink'), paper_bgcolor: colour('--paper'), plot_bgcolor: colour('--paper'),
    'legend.bgcolor': 'rgba(0,0,0,0)', 'modebar.bgcolor': 'rgba(0,0,0,0)',
    'modebar.color': colour('--soft'), 'modebar.activecolor': colour('--ink'),
  };
  for (const name of ['xaxis', 'yaxis']) {
    for (const [part, value] of Object.entries(axis)) { changes[name + '.' + part] = value; }
  }
  return changes;
};
// Break a text after spaces, and names of arms after hyphens.
const wrapped = (text, room) => {
  const lines = [''];
  for (const word of text.split(/(?<= )|(?<=[a-z]-)/)) {
    const last = lines[lines.length - 1];
    if (last && (last + word).trimEnd().length > room) { lines.push(word); } else {
      lines[lines.length - 1] = last + word;
    }
  }
  return lines.map((line) => line.trimEnd()).join('<br>');
};
// On a phone, names in one line would leave no width for what they name.
const wrapNames = (place, layout) => {
  const { yaxis } = layout;
  const names = yaxis.categoryarray.map((name) => wrapped(name, 18));
  const lines = Math.max(...names.map((name) => name.split('<br>').length));
  Object.assign(yaxis, { tickmode: 'array', tickvals: yaxis.categoryarray, ticktext: names });
  layout.height += Math.max(0, 15 * lines - 25) * names.length;
  place.style.height = `${layout.height}px`;
};
// A heat map is darker for more on white paper, and lighter for more on dark paper.
const shade = (place) => {
  const maps = place.data.flatMap((trace, index) => (trace.type === 'heatmap' ? [index] : []));
  return maps.length ? Plotly.restyle(place, { reversescale: dark.matches }, maps) : null;
};
const dress = (place) => Promise.all([Plotly.relayout(place, look()), shade(place)]);
const plots = [];
for (const place of document.querySelectorAll('.plot')) {
  const figure = JSON.parse(document.getElementById(place.id + '-data').textContent);
  const narrow = place.clientWidth < 480;
  if (narrow) {
    figure.layout.font.size = 11;
    figure.layout.margin.r = 8;
    if (figure.layout.yaxis.categoryarray) { wrapNames(place, figure.layout); }
  }
  // A title is centred on the axis, which begins right of the names: it must fit what is left.
  const room = Math.max(24, Math.floor((place.clientWidth * 0.6) / (narrow ? 7 : 9)));
  for (const axis of [figure.layout.xaxis, figure.layout.yaxis]) {
    axis.title.text = wrapped(axis.title.text, room);
  }
  Plotly.newPlot(place, figure.data, figure.layout, {
    responsive: true, displaylogo: false, displayModeBar: narrow ? false : 'hover',
    modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d'],
  }).then(() => dress(place));
  plots.push(place);
}
dark.addEventListener('change', () => plots.forEach(dress));
const hint = () => document.querySelectorAll('.scroll').forEach((part) => {
  part.classList.toggle('wide', part.scrollWidth > part.clientWidth + 1);
});
hint();
window.addEventListener('resize', hint);
document.querySelectorAll('details').forEach((part) => part.addEventListener('toggle', hint));
window.addEventListener('beforeprint', () => {
  document.querySelectorAll('details').forEach((part) => { part.open = true; });
  plots.forEach((place) => Plotly.relayout(place, { width: 620 }));
});
window.addEventListener('afterprint', () => {
  plots.forEach((place) => Plotly.relayout(place, { width: null, autosize: true }));
});
