// What the policy makes of the position, in numbers.

import {element} from "./elements.js";

const MINUS = "−";

/** A score or regret in centipawns: whole, with its sign where it may have one. */
export function centipawns(value, signed) {
  const sign = value < 0 ? MINUS : signed && value > 0 ? "+" : "";
  return sign + Math.abs(Math.round(value)).toLocaleString("en");
}

function percent(share) {
  return share > 0 && share < 0.0005 ? "<0.1 %" : (100 * share).toFixed(1) + " %";
}

function put(id, value, unit) {
  document.getElementById(id).replaceChildren(value, element("small", ` ${unit}`));
}

/** Shows a view; null empties the list. play(uci): called for a listed move, or null. prefix: of the elements' ids. */
export function showNumbers(view, play, prefix = "") {
  const moves = view ? view.moves : [];
  put(prefix + "entropy", view ? view.entropy.toFixed(2) : "–", "nats");
  put(prefix + "effective", view ? view.effective_moves.toFixed(1) : "–", `of ${moves.length} legal`);
  put(prefix + "regret", view && view.regret_cp !== null ? view.regret_cp.toFixed(1) : "–", "centipawns");
  const [value, optimum] = [view && view.value, view && view.optimum_entropy];
  document.getElementById(prefix + "value-box").hidden = value === null;
  document.getElementById(prefix + "optimum-box").hidden = optimum === null;
  if (value !== null) put(prefix + "value", value.toFixed(3).replace("-", MINUS), "reward");
  if (optimum !== null) put(prefix + "optimum", optimum.toFixed(2), "nats");
  const pulled = optimum !== null;
  document.querySelector(`#${prefix}moves .pulled`).hidden = !pulled;
  const body = document.querySelector(`#${prefix}moves tbody`);
  const focused = body.contains(document.activeElement) && document.activeElement.closest("tr").dataset.uci;
  body.replaceChildren(...moves.map((move) => row(move, pulled, play, prefix)));
  if (!focused) return; // otherwise the keyboard would be back at the top of the page
  const same = body.querySelector(`[data-uci="${focused}"] button`) || body.querySelector("button");
  (same || body.closest(".scroll")).focus({preventScroll: true});
}

/** Lets the arrow of a move stand out on its board; of none for null. */
function pointOut(uci, prefix) {
  for (const arrow of document.querySelectorAll(`#${prefix}picture .arrow`)) {
    arrow.classList.toggle("pointed", arrow.dataset.move === uci?.slice(0, 4));
  }
}

function row(move, pulled, play, prefix) {
  const line = element("tr"), bar = element("td", "", "bar"), filled = element("span");
  const texts = [
    move.san,
    percent(move.probability),
    move.score_cp === null ? "–" : centipawns(move.score_cp, true),
    move.regret_cp === null ? "–" : centipawns(move.regret_cp, false),
  ];
  if (pulled) texts.push(percent(move.optimum));
  const cells = texts.map((text) => element("td", text));
  if (play) {
    const button = element("button", move.san);
    button.type = "button";
    button.addEventListener("click", () => play(move.uci));
    cells[0].replaceChildren(button);
  }
  filled.style.width = `${100 * move.probability}%`;
  bar.setAttribute("aria-hidden", "true");
  bar.append(filled);
  if (move.regret_cp !== null) {
    line.classList.toggle("best", move.regret_cp === 0);
    cells[3].classList.toggle("regret-low", move.regret_cp <= 20);
    cells[3].classList.toggle("regret-high", move.regret_cp >= 100);
  }
  line.dataset.uci = move.uci;
  for (const [event, on] of [["pointerenter", true], ["focusin", true], ["pointerleave", false], ["focusout", false]]) {
    line.addEventListener(event, () => pointOut(on ? move.uci : null, prefix));
  }
  line.append(cells[0], bar, ...cells.slice(1));
  return line;
}
