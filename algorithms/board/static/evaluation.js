// The evaluation bar beside the board: the judge's score of the position, as White's share of the bar.

const MATE = 10000, MOST_CP = 9800; // a score beyond the second is a mate, in as many moves as it is below the first

/** Centipawns for White: the score of the best move, or of how the game ended; null where no judge scored. */
function scoreOf({position, view}) {
  if (position.over) return {"1-0": MATE, "0-1": -MATE}[position.over.result] || 0;
  const scores = (view ? view.moves : []).map((move) => move.score_cp).filter((score) => score !== null);
  return scores.length ? Math.max(...scores) * (position.turn === "white" ? 1 : -1) : null;
}

function inWords(cp, {position}) {
  if (position.over) return position.over.reason;
  const side = cp > 0 ? "White" : "Black";
  if (Math.abs(cp) <= MOST_CP) return `${cp < 0 ? "−" : cp > 0 ? "+" : ""}${(Math.abs(cp) / 100).toFixed(2)} pawns for White`;
  const moves = MATE - Math.abs(cp) + (side.toLowerCase() === position.turn ? 1 : 0); // the scores are after the move
  return `${side} mates in ${moves}`;
}

/** Shows the bar of an answer; none without a score or without a judge, who is named in words. */
export function showEvaluation(answer, judge, blackBelow) {
  const bar = document.getElementById("bar"), says = document.getElementById("evaluation");
  const cp = judge ? scoreOf(answer) : null;
  bar.hidden = says.hidden = cp === null;
  if (cp === null) return;
  const share = 100 / (1 + Math.exp(-0.00368208 * cp)); // White's chance on lichess.org, as in the project's rewards
  const words = inWords(cp, answer);
  bar.firstElementChild.style.height = `${share}%`;
  bar.classList.toggle("turned", blackBelow);
  bar.setAttribute("aria-valuenow", share.toFixed(0));
  bar.setAttribute("aria-valuetext", words);
  says.textContent = `${words}, by ${judge}`;
}
