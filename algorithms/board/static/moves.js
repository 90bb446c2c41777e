// Which legal move a player means: a promotion's man is asked for, and a typed text is compared with all names.
// And what can be said of a move before the server answers: the men after it, and the moves that may be planned then.

import {man} from "./squares.js";

/** The legal move that promotes to the man that the player chooses, or null. */
export function promotion(moves, colour) {
  const dialog = document.getElementById("promotion");
  return new Promise((done) => {
    let taken = null;
    dialog.querySelector(".men").replaceChildren(...moves.map((move) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-label", move.promotion);
      button.append(man(`${colour} ${move.promotion}`));
      button.addEventListener("click", () => {
        taken = move;
        dialog.close();
      });
      return button;
    }));
    dialog.addEventListener("close", () => done(taken), {once: true});
    dialog.showModal();
  });
}

/** The legal moves that a text means: its UCI name, its SAN with or without signs, or a promotion's squares. */
export function meant(text, legal) {
  const plain = (name) => name.replace(/[+#=x!?\s-]/g, "").replaceAll("0", "O");
  const exact = legal.filter((move) => plain(move.san) === plain(text));
  if (exact.length) return exact;
  const lower = text.replace(/[=x\s-]/g, "").toLowerCase();
  return legal.filter((move) => move.uci === lower || (move.promotion && move.uci.slice(0, 4) === lower) ||
    plain(move.san).toLowerCase() === plain(text).toLowerCase());
}

/** The men by square after a legal move. */
export function menAfter(men, {from, to, promotion}) {
  const after = [...men], [colour, kind] = men[from].split(" ");
  if (kind === "pawn" && from % 8 !== to % 8 && !men[to]) after[from - from % 8 + to % 8] = ""; // en passant
  if (kind === "king" && Math.abs(to - from) === 2) { // castling
    const [corner, beside] = to > from ? [to + 1, to - 1] : [to - 2, to + 1];
    [after[corner], after[beside]] = ["", men[corner]];
  }
  [after[from], after[to]] = ["", promotion ? `${colour} ${promotion}` : men[from]];
  return after;
}

/** The moves that a side may plan before its turn: all that its men could make if the others stood well for it. */
export function plannable(men, colour) {
  const squares = [...men.keys()], own = squares.filter((square) => men[square].startsWith(colour));
  return own.flatMap((from) => squares.filter((to) => reaches(men[from], from, to)).map((to) => ({from, to})));
}

function reaches(man, from, to) {
  const [colour, kind] = man.split(" "), forward = colour === "white" ? 1 : -1;
  const x = Math.abs(to % 8 - from % 8), up = Math.floor(to / 8) - Math.floor(from / 8), y = Math.abs(up);
  const line = (x === 0) !== (y === 0), diagonal = x === y && x > 0, home = colour === "white" ? 0 : 7;
  switch (kind) {
    case "knight": return x * y === 2;
    case "bishop": return diagonal;
    case "rook": return line;
    case "queen": return line || diagonal;
    case "king": return Math.max(x, y) === 1 || (from === home * 8 + 4 && x === 2 && y === 0);
    default: return (up === forward && x < 2) || (up === 2 * forward && x === 0 && Math.floor(from / 8) === home + forward);
  }
}
