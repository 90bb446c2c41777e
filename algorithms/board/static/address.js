// The state of the page lives in its address, so that a link shows the same place: #policy=..&moves=..&t=..

const SIDES = ["white", "black", "both"], SETS = ["probe", "heldout"];

export const START = {policy: "", fen: "", moves: [], at: 0, temperature: null, you: "white", turned: false,
  cursor: null, beside: null, set: "", n: 0, draw: false, keys: true};

/** A whole number of at least 0; another one where the text is none. */
function count(text, otherwise) {
  return /^\d{1,15}$/.test(text || "") ? Number(text) : otherwise;
}

/** The state that an address describes; what it leaves out is as at the start. */
export function readAddress(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const moves = (given.get("moves") || "").split(",").filter(Boolean);
  const at = given.has("at") ? Number(given.get("at")) : moves.length;
  const temperature = given.has("t") ? Number(given.get("t")) : null;
  return {
    policy: given.get("policy") || "",
    fen: given.get("fen") || "",
    moves,
    at: Number.isInteger(at) && at >= 0 && at <= moves.length ? at : moves.length,
    temperature: temperature !== null && temperature >= 0 && temperature <= 5 ? temperature : null,
    you: SIDES.includes(given.get("you")) ? given.get("you") : START.you,
    turned: given.get("turned") === "1",
    cursor: count(given.get("cursor"), null), // scored moves; null for the newest policy
    beside: given.get("beside"), // null for the page's own choice, "" for no other board
    set: SETS.includes(given.get("set")) ? given.get("set") : "",
    n: count(given.get("n"), 0),
    draw: given.get("draw") === "1",
    keys: given.get("keys") !== "0",
  };
}

/** The address of a state. */
export function writeAddress(state) {
  const given = new URLSearchParams();
  given.set("policy", state.policy);
  if (state.fen) given.set("fen", state.fen);
  if (state.moves.length) given.set("moves", state.moves.join(","));
  if (state.at !== state.moves.length) given.set("at", state.at);
  if (state.temperature !== null) given.set("t", state.temperature);
  if (state.you !== START.you) given.set("you", state.you);
  if (state.turned) given.set("turned", "1");
  if (state.beside !== null) given.set("beside", state.beside);
  if (state.draw) given.set("draw", "1");
  if (!state.keys) given.set("keys", "0");
  if (state.cursor !== null) given.set("cursor", state.cursor);
  if (state.set) {
    given.set("set", state.set);
    given.set("n", state.n);
  }
  return "#" + given.toString().replaceAll("%2C", ",").replaceAll("%2F", "/");
}
