// The page: its state is in the address, the server says what is shown of it.

import {START, readAddress, writeAddress} from "./address.js";
import {showEvaluation} from "./evaluation.js";
import {lineOfPlay, savePgn, showGame, spoken} from "./game.js";
import {meant, menAfter, plannable, promotion} from "./moves.js";
import {showNumbers} from "./numbers.js";
import {drawn, redraw} from "./pictures.js";
import {LostError, RefusedError, ask, pause, waitForServer} from "./server.js";
import {click, listenToSwitch} from "./sound.js";
import {Squares, squareName} from "./squares.js";
import {Training} from "./training.js";

const POLL_LOADING_MS = 300, POLL_MS = 3000, LINE_AFTER_MS = 250;
const KEYS = {ArrowLeft: "previous", ArrowRight: "next", Home: "first", End: "last", f: "turn-board", "?": "open-help"};
const byId = (id) => document.getElementById(id);

let state = readAddress(location.hash);
let policies = [], judge = null;
let shown = null, shownGame = ""; // the last answer, and the game that it is of
let missing = ""; // what the address asked for in vain
let lineIsOf = ""; // the place and the policy of the line of play
let running = false, again = false, replying = false;
let called = false; // the policy is to move whoever's turn it is

const squares = new Squares(byId("squares"), choose);
const training = new Training({state: () => state, policies: () => policies, change, question, refresh, listed});

// --- from the state to the page ---

function blackBelow() {
  return (state.you === "black") !== state.turned;
}

function chosen() {
  return policies.find((policy) => policy.name === state.policy);
}

function temperature() {
  if (state.temperature !== null) return state.temperature;
  const known = chosen();
  return known && known.temperature ? known.temperature : 1;
}

function question() {
  const {policy, fen, moves, at, draw} = state;
  const update = training.update();
  return {policy, update, fen, moves, at, draw, temperature: temperature(), below: blackBelow() ? "black" : "white"};
}

/** Changes the state and its address, and shows what follows. */
function change(changes) {
  state = {...state, ...changes};
  called = false;
  history.replaceState(null, "", writeAddress(state));
  showControls();
  return refresh();
}

/** Asks for what the state shows; while an answer is on its way, only the last of the changes is asked for. */
async function refresh() {
  again = true;
  if (running) return;
  running = true;
  try {
    while (again) {
      again = false;
      await step();
    }
  } finally {
    running = false;
  }
  showLine();
}

/** Asks how the policy would go on, once the place has been shown for a moment: the board's own answers must not wait. */
async function showLine() {
  const asked = lineNow();
  await pause(LINE_AFTER_MS);
  if (running || asked !== lineNow() || asked === lineIsOf || shownGame !== game() || chosen()?.state !== "ready") return;
  lineIsOf = asked;
  try {
    const {line} = await ask("/api/line", question());
    if (asked === lineIsOf) byId("line").textContent = line.length ? `Line of play: ${lineOfPlay(shown, line)}` : "";
  } catch (error) {
    if (!(error instanceof RefusedError || error instanceof LostError)) throw error; // the page goes on without
    lineIsOf = "";
  }
}

function lineNow() {
  return JSON.stringify([game(), state.policy, training.update()]);
}

async function step() {
  try {
    await training.ready();
    if (!called && !policyMovesNext()) {
      const asked = place();
      const [answering, besides] = [ask("/api/view", question()), training.askBeside()];
      besides.catch(() => {}); // it is waited for below, unless the first one fails
      const answer = await answering;
      if (again && asked !== place()) return; // while a slider moves, what is on its way is still worth a look
      show(answer);
      training.showBeside(await besides, answer.view);
      training.draw();
    }
    if (called || policyMovesNext()) await reply(); // after a link it is not known before
  } catch (error) {
    if (error instanceof LostError) {
      showPolicies(await waitForServer());
      again = true;
    } else if (error instanceof RefusedError) {
      squares.release();
      say(error.message);
    } else {
      throw error;
    }
  }
}

/** The game and the place in it, as a text. */
function game() {
  return JSON.stringify([state.fen, state.moves, state.at]);
}

/** What is shown, whatever the sliders say. */
function place() {
  return writeAddress({...state, cursor: null, temperature: null});
}

/** Whether the policy is to move at the place that the address says, as far as is known of where the game began. */
function policyMovesNext() {
  if (!shown || shown.fen !== state.fen || chosen()?.state !== "ready" || state.at !== state.moves.length) return false;
  if (shown.position.over && shown.moves.join() === state.moves.join()) return false;
  return state.you !== "both" && turn() !== state.you;
}

/** Whose turn it is after all moves of the address. */
function turn() {
  return (shown.position.root_turn === "white") === (state.moves.length % 2 === 0) ? "white" : "black";
}

/** Lets the policy move; an answer to an older state is dropped. */
async function reply() {
  const asked = writeAddress(state);
  let planned = null;
  called = false;
  replying = true;
  try {
    const answer = await ask("/api/reply", question());
    if (asked !== writeAddress(state)) return;
    state = {...state, moves: answer.moves, at: answer.at};
    history.replaceState(null, "", writeAddress(state));
    ({planned} = squares);
    show(answer);
  } finally {
    replying = false;
  }
  const early = planned && squares.legal.find(({from, to, promotion: kind}) => // a planned promotion is one to a queen
    from === planned.from && to === planned.to && [null, "queen"].includes(kind));
  if (early) {
    play(early);
    return;
  }
  again ||= policyMovesNext(); // after a move in the player's place
  training.draw();
  const now = place(), other = await training.askBeside();
  if (now === place()) training.showBeside(other, shown.view);
}

function show(answer) {
  const before = shown?.at;
  if (shownGame !== game()) {
    byId("link").hidden = true;
    byId("share-says").textContent = "";
  }
  if (before !== undefined && shownGame !== game() && answer.at > 0 && answer.at >= before) click(answer.sans[answer.at - 1]);
  [shown, shownGame] = [answer, game()];
  const {position, view, problem} = answer;
  byId("picture").replaceChildren(drawn(answer.picture));
  const mine = !position.over && (state.you === "both" || state.you === position.turn || state.at < state.moves.length);
  squares.show(position.men, mine ? position.legal : [], blackBelow());
  showNumbers(view, listed());
  showEvaluation(answer, judge, blackBelow());
  if (lineIsOf !== lineNow()) byId("line").textContent = lineIsOf = "";
  showGame(answer, (at) => change({at}));
  const side = position.turn === "white" ? "White" : "Black";
  byId("turn").textContent = position.over ? "" : `${side} to move${position.check ? ", in check" : ""}`;
  byId("result").hidden = !position.over;
  byId("result").textContent = position.over ? `${position.over.result} · ${position.over.reason}` : "";
  byId("fen").value = position.fen;
  byId("announce").textContent = spoken(answer);
  say([missing, problem].filter(Boolean).join("\n"));
  showControls();
}

function showControls() {
  const value = temperature();
  byId("temperature").value = value;
  byId("temperature-value").textContent = value.toFixed(2);
  const known = chosen();
  const learned = known && known.temperature ? ` The run learns at ${known.temperature.toFixed(2)}.` : "";
  const also = state.draw ? ", and the moves are drawn at it" : "";
  byId("temperature-says").textContent = `The probabilities are at this temperature${also}.${learned}`;
  byId("no-optimum").textContent = shown?.pull ? pulledTo(shown.pull) : notPulled(known);
  for (const radio of document.querySelectorAll("[name=you]")) radio.checked = radio.value === state.you;
  for (const radio of document.querySelectorAll("[name=draw]")) radio.checked = (radio.value === "1") === state.draw;
  byId("keys").checked = state.keys;
  byId("back").disabled = state.moves.length === 0;
  byId("first").disabled = byId("previous").disabled = state.at === 0;
  byId("next").disabled = byId("last").disabled = state.at === state.moves.length;
  const over = !shown || shown.position.over;
  byId("policy-move").disabled = Boolean(over) || !known || known.state !== "ready";
  training.showControls();
}

/** Why no optimum is shown; "" while nothing is shown, and of weights without a run, which nothing pulls. */
function notPulled(known) {
  if (!shown?.view?.moves.length || !known?.temperature) return "";
  if (known.no_optimum) return `What a run’s bonus and KL pull the moves towards is not shown here: ${known.no_optimum}`;
  return shown.view.regret_cp === null ? "What the run pulls towards is not known without scores."
    : "What the run pulled towards is known where its whole checkpoint is still there; that of this policy is gone.";
}

/** What the optimum of the policy that is shown is made of. */
function pulledTo(pull) {
  const parts = [["entropy bonus", pull.ent_coef], ["KL to the reference", pull.kl_ref_coef]];
  const named = parts.filter(([, coef]) => coef > 0).map(([name, coef]) => `its ${name} (${Number(coef.toPrecision(3))})`);
  return `“Pulled to” is the optimum of the run’s reward with ${named.join(" and ")}, at the run’s own temperature.`;
}

function say(problem) {
  byId("problem").textContent = problem;
  byId("problem").hidden = !problem;
}

// --- the list of policies ---

function showPolicies(answer) {
  ({policies, judge} = answer);
  const select = byId("policy");
  const labels = policies.map((policy) => policy.label);
  select.replaceChildren(...policies.map((policy) => {
    const twice = labels.filter((label) => label === policy.label).length > 1;
    const suffix = {loading: " (loading …)", failed: " (cannot be opened)", ready: ""}[policy.state];
    return new Option((twice ? policy.name : policy.label) + suffix, policy.name);
  }));
  takeKnownPolicy();
  training.showPolicies();
  byId("judged").textContent = answer.evaluator
    ? `Scores and regret in centipawns, from the side to move, after each move. ★ has no regret. Scored by ${answer.judge}.`
    : "No evaluator scores the moves.";
  byId("judged").title = answer.evaluator || "";
}

/** A link may name a policy that this server does not offer: the first one is shown, and that is said. */
function takeKnownPolicy() {
  if (!chosen()) {
    missing = state.policy && `The address asks for the policy “${state.policy}”, which is not offered here.`;
    state.policy = policies[0].name;
  }
  byId("policy").value = state.policy;
}

/** Keeps the list current: often while a policy is loaded, and now and then to see that the server is there. */
async function watchPolicies() {
  for (;;) {
    let answer;
    try {
      answer = await fetchPolicies();
    } catch (error) {
      if (!(error instanceof LostError)) throw error;
      answer = await waitForServer();
      byId("announce").textContent = "The server is back.";
      refresh();
    }
    if (JSON.stringify(answer.policies) !== JSON.stringify(policies)) {
      showPolicies(answer);
      showControls();
      refresh();
    }
    await pause(policies.some((policy) => policy.state === "loading") ? POLL_LOADING_MS : POLL_MS);
  }
}

async function fetchPolicies() {
  const loading = policies.length === 0 || policies.some((policy) => policy.state === "loading");
  byId("busy-text").textContent = chosen()?.state === "loading" ? "loading the policy …" : "computing …";
  if (loading && policies.length) byId("busy").hidden = chosen().state !== "loading";
  return ask("/api/policies");
}

// --- what a player does ---

async function choose(moves) {
  if (squares.planned) {
    byId("announce").textContent = `Premove from ${squareName(moves[0].from)} to ${squareName(moves[0].to)}.`;
    return;
  }
  const move = moves.length === 1 ? moves[0] : await promotion(moves, shown.position.turn);
  if (move) play(move);
}

/** What plays a listed move; null where the player has no move. */
function listed() {
  return squares.legal.length ? (uci) => squares.legal.filter((move) => move.uci === uci).forEach(play) : null;
}

function play(move) {
  if (replying || shownGame !== game()) return; // a second move before the first one is shown
  const moves = [...state.moves.slice(0, state.at), move.uci];
  byId("typed-says").textContent = "";
  change({moves, at: moves.length});
  if (policyMovesNext()) showAtOnce(move);
}

/** Shows the player's move while the policy thinks, so that the next one can be planned. */
function showAtOnce(move) {
  const men = menAfter(shown.position.men, move);
  redraw(byId("picture"), men, [move.from, move.to], blackBelow());
  squares.show(men, [], blackBelow(), plannable(men, state.you));
  byId("turn").textContent = `${state.you === "white" ? "Black" : "White"} to move`;
  click(move.san);
}

function listen() {
  byId("policy").addEventListener("change", (event) => {
    missing = "";
    change({policy: event.target.value});
  });
  byId("temperature").addEventListener("input", (event) => change({temperature: Number(event.target.value)}));
  for (const radio of document.querySelectorAll("[name=you]")) {
    radio.addEventListener("change", () => change({you: radio.value, turned: false}));
  }
  for (const radio of document.querySelectorAll("[name=draw]")) {
    radio.addEventListener("change", () => change({draw: radio.value === "1"}));
  }
  byId("open-help").addEventListener("click", () => byId("help").showModal());
  listenToSwitch(byId("sound"));
  byId("keys").addEventListener("change", (event) => change({keys: event.target.checked}));
  document.addEventListener("keydown", pressed);
  byId("back").addEventListener("click", () => {
    // With the policy as the opponent its answer goes too, so that it is the player's turn again.
    const answered = shown && turn() === state.you && state.at === state.moves.length;
    const moves = state.moves.slice(0, Math.max(0, state.moves.length - (answered ? 2 : 1)));
    change({moves, at: moves.length});
  });
  byId("new").addEventListener("click", () => change({fen: "", moves: [], at: 0}));
  byId("turn-board").addEventListener("click", () => change({turned: !state.turned}));
  byId("policy-move").addEventListener("click", () => {
    if (replying) return;
    change({moves: state.moves.slice(0, state.at)});
    called = true;
  });
  byId("share").addEventListener("click", share);
  byId("first").addEventListener("click", () => change({at: 0}));
  byId("previous").addEventListener("click", () => change({at: state.at - 1}));
  byId("next").addEventListener("click", () => change({at: state.at + 1}));
  byId("last").addEventListener("click", () => change({at: state.moves.length}));
  byId("typed").addEventListener("submit", typed);
  byId("set-fen").addEventListener("submit", setFen);
  byId("load-pgn").addEventListener("submit", loadPgn);
  byId("save-pgn").addEventListener("click", () => guarded(() => savePgn(state, chosen()?.label || "policy")));
  byId("pgn-file").addEventListener("change", async (event) => {
    const [file] = event.target.files; // none where the choice was given up
    if (file) byId("pgn").value = (await file.text()).slice(0, 200000);
  });
  addEventListener("hashchange", () => {
    state = readAddress(location.hash);
    takeKnownPolicy();
    training.showPolicies();
    refresh();
  });
}

/** Copies a link to what is shown; where the browser keeps the clipboard from the page, it is shown selected. */
async function share() {
  const link = location.origin + location.pathname + writeAddress(state), field = byId("link");
  let copied = Boolean(navigator.clipboard); // none on another machine's page without https
  try {
    await navigator.clipboard?.writeText(link);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    copied = false;
  }
  byId("share-says").textContent = copied ? "The link is copied." : "The browser does not let this page copy: copy the link here.";
  field.hidden = copied;
  field.value = link;
  if (!copied) field.select();
}

/** A key does what its button does, except in a field or a dialog that uses it itself. */
function pressed(event) {
  const button = byId(KEYS[event.key]), single = event.key?.length === 1; // a browser that fills in a field names no key
  const typing = "select, textarea, input:not([type=range], [type=radio], [type=checkbox])";
  if (!button || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches(single ? typing : "select, textarea, input, .scroll") || document.querySelector("dialog[open]")) return;
  if (single && !state.keys) return;
  event.preventDefault();
  button.click();
}

async function typed(event) {
  event.preventDefault();
  const field = byId("typed-move"), text = field.value.trim(), moves = meant(text, squares.legal);
  const mine = squares.legal.length > 0;
  if (!text || !mine || !moves.length) {
    byId("typed-says").textContent = !text ? "Type a move, such as e4." : mine ? `“${text}” is no legal move here.`
      : "It is not your turn.";
    return;
  }
  field.value = "";
  await choose(moves);
}

async function setFen(event) {
  event.preventDefault();
  await guarded(async () => {
    const fen = byId("fen").value.trim();
    await ask("/api/view", {...question(), fen, moves: [], at: 0, policy: ""}); // refused before anything is lost
    await change({fen, moves: [], at: 0});
  });
}

async function loadPgn(event) {
  event.preventDefault();
  await guarded(async () => {
    const {fen, moves, note} = await ask("/api/pgn/read", {pgn: byId("pgn").value});
    await change({fen, moves, at: moves.length, you: "both"});
    byId("files-say").textContent = note;
  });
}

/** Does what a form asks for; a refusal is said beside the form. */
async function guarded(action) {
  byId("files-say").textContent = "";
  try {
    await action();
  } catch (error) {
    if (!(error instanceof RefusedError || error instanceof LostError)) throw error;
    byId("files-say").textContent = error instanceof LostError ? "The server does not answer." : error.message;
  }
}

async function begin() {
  listen();
  showControls();
  try {
    showPolicies(await ask("/api/policies"));
  } catch (error) {
    if (!(error instanceof LostError)) throw error;
    showPolicies(await waitForServer());
  }
  await refresh();
  await Promise.all([watchPolicies(), training.follow()]);
}

begin();
