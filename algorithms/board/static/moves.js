// Which legal move a player means: a promotion's man is asked for, and a typed text is compared with all names.

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
