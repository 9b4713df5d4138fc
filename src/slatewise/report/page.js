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
const wrapped = (text, room) => {
  const lines = [''];
  for (const word of text.split(' ')) {
    const last = lines[lines.length - 1];
    if (last && last.length + word.length >= room) { lines.push(word); } else {
      lines[lines.length - 1] = last ? last + ' ' + word : word;
    }
  }
  return lines.join('<br>');
};
const plots = [];
for (const place of document.querySelectorAll('.plot')) {
  const figure = JSON.parse(document.getElementById(place.id + '-data').textContent);
  const narrow = place.clientWidth < 480;
  if (narrow) {
    figure.layout.font.size = 11;
    figure.layout.margin.r = 8;
  }
  // A title is centred on the axis, which begins right of the names: it must fit what is left.
  const room = Math.max(24, Math.floor((place.clientWidth * 0.6) / (narrow ? 7 : 9)));
  for (const axis of [figure.layout.xaxis, figure.layout.yaxis]) {
    axis.title.text = wrapped(axis.title.text, room);
  }
  Plotly.newPlot(place, figure.data, figure.layout, {
    responsive: true, displaylogo: false, displayModeBar: narrow ? false : 'hover',
    modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d'],
  }).then(() => Plotly.relayout(place, look()));
  plots.push(place);
}
dark.addEventListener('change', () => plots.forEach((place) => Plotly.relayout(place, look())));
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
