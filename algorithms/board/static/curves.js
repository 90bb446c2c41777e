// Curves of one position over training, as SVG with a cursor, and as a table.

import {element, svg} from "./elements.js";

const WIDTH = 380, LEFT = 46, RIGHT = 372, TOP = 18, BOTTOM = 112, HEIGHT = 132, LABEL = 34;

const CHARTS = [
  {name: "Entropy", unit: "nats", value: (point) => point.entropy, digits: 2},
  {name: "Probability of the likeliest move", unit: "", value: (point) => point.probability, digits: 2, top: 1, moves: true},
  {name: "Expected regret", unit: "centipawns", value: (point) => point.regret_cp, digits: 1},
];


const whole = (value) => value.toLocaleString("en");

/** A round number at or above a value, for the upper end of an axis. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value * 0.999) || 10 * power;
}

/** Pixels of scored moves. */
function across(moves, last) {
  return LEFT + (RIGHT - LEFT) * (last ? moves / last : 0);
}

/** Draws the curves of series {label, points} into an element; pick(scored moves) is called where one is clicked. */
export function drawCurves(place, series, pick) {
  const last = Math.max(0, ...series.flatMap((run) => run.points.map((point) => point.scored_moves)));
  place.dataset.last = last;
  place.replaceChildren(...CHARTS.map((chart) => figure(chart, series, last, pick)));
}

/** Puts the cursor of every chart at so many scored moves. */
export function moveCursor(place, moves) {
  const x = across(moves, Number(place.dataset.last)).toFixed(1);
  for (const line of place.querySelectorAll(".cursor")) {
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
  }
}

function figure(chart, series, last, pick) {
  const made = element("figure");
  const drawn = series.map((run, number) => ({
    label: run.label, number, points: run.points.filter((point) => chart.value(point) !== null),
  }));
  made.append(element("figcaption", chart.name + (chart.unit ? `, ${chart.unit}` : "")));
  if (!drawn.some((run) => run.points.length)) {
    made.append(element("p", "Not known: no evaluator scores the moves.", "soft"));
    return made;
  }
  const top = chart.top || roundUp(Math.max(...drawn.flatMap((run) => run.points.map(chart.value))));
  const high = (value) => BOTTOM - (BOTTOM - TOP) * value / top;
  const image = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": said(chart, drawn)});
  for (const tick of [0, top / 2, top]) {
    image.append(svg("line", {class: "axis", x1: LEFT, x2: RIGHT, y1: high(tick), y2: high(tick)}));
    image.append(svg("text", {x: LEFT - 6, y: high(tick) + 4, "text-anchor": "end"}, String(Number(tick.toPrecision(3)))));
  }
  image.append(svg("text", {x: LEFT, y: HEIGHT - 4}, "0"));
  image.append(svg("text", {x: RIGHT, y: HEIGHT - 4, "text-anchor": "end"}, `${whole(last)} scored moves`));
  for (const run of drawn) image.append(curve(chart, run, (point) => [across(point.scored_moves, last), high(chart.value(point))]));
  image.append(svg("line", {class: "cursor", x1: LEFT, x2: LEFT, y1: TOP - 6, y2: BOTTOM}));
  image.addEventListener("click", (event) => {
    const box = image.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * WIDTH;
    pick(Math.round(last * Math.min(1, Math.max(0, (x - LEFT) / (RIGHT - LEFT)))));
  });
  made.append(image);
  return made;
}

function curve(chart, run, place) {
  const group = svg("g", {class: `run${run.number}`});
  const corners = run.points.map((point) => place(point).map((pixels) => pixels.toFixed(1)).join(","));
  group.append(svg("polyline", {points: corners.join(" ")}));
  let labelled = -LABEL;
  run.points.forEach((point, index) => {
    const [x, y] = place(point);
    group.append(svg("circle", {cx: x, cy: y, r: 2.2, class: point.recorded ? "recorded" : ""}));
    const changed = index === 0 || run.points[index - 1].san !== point.san;
    if (!chart.moves || !changed || x - labelled < LABEL) return;
    labelled = x; // a label that would cover the one before is left to the table
    const below = run.number === 1;
    const at = Math.min(BOTTOM - 3, Math.max(TOP - 6, below ? y + 14 : y - 6));
    group.append(svg("text", {x: Math.min(x, RIGHT - 24), y: at}, point.san));
  });
  return group;
}

/** The curves in words. */
function said(chart, drawn) {
  const parts = drawn.filter((run) => run.points.length).map((run) => {
    const number = (point) => chart.value(point).toFixed(chart.digits);
    const [first, last] = [run.points[0], run.points.at(-1)];
    const moves = chart.moves ? ` The likeliest move is ${first.san} at first and ${last.san} at last.` : "";
    return `${run.label}: ${number(first)} at ${whole(first.scored_moves)} scored moves, ` +
      `${number(last)} at ${whole(last.scored_moves)}.${moves}`;
  });
  return `${chart.name}${chart.unit ? ` in ${chart.unit}` : ""} against scored moves. ${parts.join(" ")}`;
}

/** The points of the series as the rows of a table. */
export function tabulate(body, series) {
  const rows = series.flatMap((run) => run.points.map((point) => {
    const row = element("tr");
    const texts = [run.label, whole(point.scored_moves), whole(point.update) + (point.recorded ? " (recorded)" : ""),
      point.san || "–", point.probability === null ? "–" : `${(100 * point.probability).toFixed(1)} %`,
      point.entropy.toFixed(2), point.regret_cp === null ? "–" : point.regret_cp.toFixed(1)];
    row.append(...texts.map((text) => element("td", text)));
    return row;
  }));
  body.replaceChildren(...rows);
}
