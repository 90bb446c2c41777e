// The game beside the board: its moves, its end, and the files that hold it.

import {element} from "./elements.js";
import {ask} from "./server.js";

/** What is written before a ply, counted from the game's beginning: "3." before White's, "3…" before Black's if it is the first. */
function numberBefore({root_turn, root_number}, index, first) {
  const ply = index + (root_turn === "black" ? 1 : 0);
  return ply % 2 && !first ? "" : `${root_number + Math.floor(ply / 2)}${ply % 2 ? "…" : "."}`;
}

/** The moves that would follow the place that is shown, as text. */
export function lineOfPlay({position, at}, sans) {
  return sans.map((san, ply) => `${numberBefore(position, at + ply, ply === 0)} ${san}`.trim()).join(" ");
}

/** Shows the moves and the opening; go(at) is called with the ply that was chosen. */
export function showGame(answer, go) {
  const list = document.getElementById("game"), items = [];
  document.getElementById("opening").textContent = answer.position.opening;
  answer.sans.forEach((san, index) => {
    const item = element("li"), button = element("button", san);
    const number = numberBefore(answer.position, index, index === 0);
    if (number) item.append(element("span", number, "number"));
    button.type = "button";
    button.addEventListener("click", () => go(index + 1));
    if (index + 1 === answer.at) button.setAttribute("aria-current", "step");
    item.append(button);
    items.push(item);
  });
  list.replaceChildren(...items);
  const current = list.querySelector("[aria-current]");
  if (current) list.scrollTop = current.offsetTop - list.offsetTop - list.clientHeight / 2;
}

/** The last moves in words, for a screen reader. */
export function spoken(answer) {
  const {position, sans, at} = answer;
  const parts = [];
  if (at > 0) parts.push(`${position.turn === "white" ? "Black" : "White"} played ${sans[at - 1]}.`);
  if (position.over) parts.push(`${position.over.result}. ${position.over.reason}`);
  else parts.push(`${position.turn === "white" ? "White" : "Black"} to move${position.check ? ", in check" : ""}.`);
  const best = answer.view && answer.view.moves[0];
  if (best) parts.push(`Likeliest: ${best.san}, ${Math.round(100 * best.probability)} percent.`);
  return parts.join(" ");
}

/** Saves a text as a file. */
export function saveFile(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Saves the game as a file. */
export async function savePgn(state, label) {
  const sides = {white: [label, "You"], black: ["You", label], both: ["?", "?"]}[state.you];
  const [black, white] = sides;
  const {pgn} = await ask("/api/pgn/write", {fen: state.fen, moves: state.moves, white, black});
  document.getElementById("pgn").value = pgn;
  saveFile("game.pgn", "application/x-chess-pgn", pgn);
}
