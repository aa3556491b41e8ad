"""The page's own script: charts by keyboard, legends and wide tables that fit a phone."""

KEYS = """
'use strict';
const UNITS = ['bit', 'kbit', 'Mbit', 'Gbit', 'Tbit'];
const named = (value, unit) => {  // as tables print bits: 2 Mbit
  const place = unit ? Math.min(4, Math.max(0, Math.floor(Math.log10(value * 1.0001) / 3))) : 0;
  return `${+(value / 1000 ** place).toPrecision(4)}${unit ? ` ${UNITS[place]}` : ''}`;
};
const ticks = (low, high) => {  // at 1, 2 and 5 times powers of ten; closer by, at equal steps
  const found = [];
  if (high > 5 * low) {
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++) {
      found.push(...(high > 50 * low ? [1] : [1, 2, 5]).map(digit => digit * 10 ** power));
    }
  } else {
    const power = 10 ** Math.floor(Math.log10((high - low) / 8));
    const step = power * ([1, 2, 5].find(digit => digit * power >= (high - low) / 8) || 10);
    for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
  }
  return found;
};
const finer = chart => {  // a part that is zoomed into has ticks of its own
  const {tickvals, ticktext} = chart.layout.xaxis, {unit} = chart.layout.meta;
  chart.on('plotly_relayout', change => {
    const keys = Object.keys(change).filter(key => /^xaxis[.](range|autorange)/.test(key));
    if (!keys.length) return;
    const ends = chart.layout.xaxis.range.map(end => 10 ** end);
    const whole = keys.includes('xaxis.autorange');
    const now = whole ? tickvals : ticks(...ends);
    const texts = whole ? ticktext : now.map(value => named(value, unit));
    Plotly.relayout(chart, {'xaxis.tickvals': now, 'xaxis.ticktext': texts});
  });
};
document.querySelectorAll('figure .plotly-graph-div').forEach(chart => {
  const figure = chart.closest('figure'), said = document.getElementById('said');
  let at = null;
  const points = k => chart.data[k].hoverinfo === 'skip' || chart.data[k].visible === 'legendonly'
    ? 0 : chart.data[k].text.length;
  const onto = (key, n, now, sign) => {  // the next of n that is one, round and round
    for (let i = 0, k = now; i < n; i++) {
      k = (k + sign + n) % n;
      if (key(k)) return k;
    }
    return now;
  };
  const say = text => {
    said.textContent = text.replace(/<br>/g, ', ').replace(/&lt;/g, '<').replace(/&gt;/g, '>')
      .replace(/&quot;/g, '"').replace(/&#x27;/g, "'").replace(/&amp;/g, '&');
  };
  const cell = (dx, dy) => {
    const {x, y, hovertext} = chart.data[0];
    at = at ? [(at[0] + dy + y.length) % y.length, (at[1] + dx + x.length) % x.length] : [0, 0];
    Plotly.Fx.hover(chart, [{curveNumber: 0, xval: at[1], yval: at[0]}], 'xy');
    say(hovertext[at[0]][at[1]]);
  };
  const point = (dx, dy) => {
    let [line, place] = at || [onto(points, chart.data.length, -1, 1), -1];
    if (dy && at) {
      line = onto(points, chart.data.length, line, dy);
      place = Math.min(place, points(line) - 1);
    } else {
      place = (place + (at ? dx : 1) + points(line)) % points(line);
    }
    show(line, place);
  };
  const show = (line, place) => {
    at = [line, place];
    Plotly.Fx.hover(chart, [{curveNumber: line, pointNumber: place}],
      `x${chart.data[line].yaxis || 'y'}`);
    say(chart.data[line].text[place]);
  };
  const heat = chart.data[0].type === 'heatmap';
  const end = last => {  // of the row, of the line: the first of them where none is chosen yet
    if (heat) {
      at = [at ? at[0] : 0, last ? chart.data[0].x.length - 1 : 0];
      cell(0, 0);
    } else {
      const line = at ? at[0] : onto(points, chart.data.length, -1, 1);
      show(line, last ? points(line) - 1 : 0);
    }
  };
  const ways = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
  figure.addEventListener('keydown', event => {
    if (event.key === 'Escape') {
      Plotly.Fx.unhover(chart);
      at = null;
      said.textContent = '';
    } else if (event.altKey || event.ctrlKey || event.metaKey) {
      return;
    } else if (ways[event.key]) {
      event.preventDefault();
      (heat ? cell : point)(...ways[event.key]);
    } else if (event.key === 'Home' || event.key === 'End') {
      event.preventDefault();
      end(event.key === 'End');
    }
  });
  figure.addEventListener('focusout', () => { Plotly.Fx.unhover(chart); at = null; });
  if (matchMedia('(pointer: coarse)').matches) {  // there a finger scrolls the page
    Plotly.relayout(chart, {dragmode: false});
  }
  if (chart.layout.xaxis.type === 'log') finer(chart);
  const tall = chart.layout.height;
  let more = 0;
  chart.on('plotly_afterplot', () => {  // a narrow legend has an entry a line
    const keys = chart.querySelectorAll('.legend .traces').length;
    const now = chart.clientWidth < 560 && keys > 4 ? 19 * keys : 0;
    if (now === more) return;
    more = now;
    chart.parentElement.style.height = `${tall + more}px`;
    Plotly.relayout(chart, {height: tall + more});
  });
  Plotly.redraw(chart);
});
document.querySelectorAll('.wide').forEach(box => {  // says so where columns are out of sight
  const hint = document.createElement('p');
  hint.className = 'note';
  hint.textContent = 'More columns to the right: scroll the table sideways.';
  box.before(hint);
  const look = () => { hint.hidden = box.scrollWidth <= box.clientWidth; };
  new ResizeObserver(look).observe(box);
  look();
});
"""
