// Sliding through training: which policy of a run is shown, a second run beside it, curves, positions, a live run.

import {drawCurves, moveCursor, tabulate} from "./curves.js";
import {element} from "./elements.js";
import {saveFile} from "./game.js";
import {showNumbers} from "./numbers.js";
import {drawn} from "./pictures.js";
import {LostError, RefusedError, ask, pause} from "./server.js";

const FOLLOW_MS = 2000, LIST_MS = 250, PLAY_MS = 8000, REDUCED_MS = 1500;
const NOTHING = {tag: "", stops: [], row: "", health: "", noise: "", notes: []};
const byId = (id) => document.getElementById(id);

export class Training {
  /**
   * page: state() and policies() of the page, change(changes), question() for the server, refresh(), and listed(),
   * what plays a listed move.
   */
  constructor(page) {
    this.page = page;
    this.runs = {}; // name -> what the server told of it
    this.lists = {}; // what was asked -> positions
    this.curves = {}; // name -> its points
    this.offered = ""; // for the place beside
    this.drawn = this.place = ""; // what the curves are of
    this.drawing = this.playing = this.listing = false;
    this.#listen();
  }

  // --- which policies ---

  #run(name) {
    return this.runs[name] || NOTHING;
  }

  /** The policies of a run on the slider: those on disk, and those recorded of this position. */
  #stops(name) {
    const points = this.place === this.#place() && this.curves[name];
    const recorded = (points || []).filter((point) => point.recorded);
    const stops = this.#run(name).stops, known = new Set(stops.map((stop) => stop.update));
    return [...stops, ...recorded.filter((point) => !known.has(point.update))]
      .sort((one, other) => one.scored_moves - other.scored_moves);
  }

  #names() {
    return [...new Set([this.page.state().policy, this.beside()])].filter(Boolean);
  }

  /** The run beside: what the address names, else another one that is offered, else the same run at its start; "" for none. */
  beside() {
    const {policy, beside} = this.page.state();
    if (beside !== null) return beside;
    const other = this.page.policies().find((each) => each.name !== policy && each.state !== "failed");
    if (other) return other.name;
    return this.#run(policy).stops.length > 1 ? policy : "";
  }

  /** The policy beside: at the slider, or the first one of the run that is shown already; null where there is none. */
  #stopBeside() {
    const name = this.beside();
    return name === this.page.state().policy ? this.#stops(name)[0] || null : this.#stop(name);
  }

  /** The scored moves at which a run of those shown has a policy. */
  frames() {
    const all = this.#names().flatMap((name) => this.#stops(name).map((stop) => stop.scored_moves));
    return [...new Set(all)].sort((one, other) => one - other);
  }

  /** Where the slider is. */
  index() {
    const frames = this.frames(), {cursor} = this.page.state();
    if (cursor === null) return Math.max(0, frames.length - 1);
    return Math.max(0, frames.findLastIndex((moves) => moves <= cursor));
  }

  /** The policy of a run at the slider: the last one at or before it; null where there is none yet. */
  #stop(name) {
    const at = this.frames()[this.index()];
    return this.#stops(name).findLast((stop) => stop.scored_moves <= at) || null;
  }

  /** The update whose policy the page shows; null for the policy that was loaded. */
  update() {
    const stop = this.#stop(this.page.state().policy);
    if (stop) return stop.update;
    const [first] = this.#stops(this.page.state().policy);
    return first ? first.update : null;
  }

  /** Waits until the runs that are shown are known. */
  async ready() {
    await Promise.all(this.#names().filter((name) => !this.runs[name]).map((name) => this.#look(name)));
  }

  async #look(name) {
    try {
      const told = await ask("/api/training/look", {policy: name, tag: this.#run(name).tag});
      if (told.stops) this.runs[name] = told;
      return Boolean(told.stops);
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      this.runs[name] = NOTHING;
      return false;
    }
  }

  /** Follows the runs that are shown, for ever. */
  async follow() {
    for (;;) {
      await pause(FOLLOW_MS);
      try {
        const names = this.#names(), before = this.update();
        const news = await Promise.all(names.map((name) => this.#look(name)));
        if (!news.some(Boolean)) continue;
        this.showControls();
        const {cursor} = this.page.state();
        if (cursor === null && (this.update() !== before || names.length > 1)) this.page.refresh();
        else this.draw();
      } catch (error) {
        if (!(error instanceof LostError)) throw error; // the page says so, and waits
      }
    }
  }

  // --- the run beside ---

  /** Asks for the same place under the policy of the run beside. */
  async askBeside() {
    const beside = this.beside(), stop = this.#stopBeside();
    if (!beside) return null;
    if (!stop && this.#stops(beside).length) return {problem: "This run has no policy yet at this point."};
    if (beside === this.page.state().policy && (!stop || stop.update === this.update())) {
      return {problem: "This is the policy that is shown already: move the slider, or choose another run beside."};
    }
    return ask("/api/view", {...this.page.question(), policy: beside, update: stop ? stop.update : null});
  }

  /** Shows the answer to `askBeside`, beside a view of the page's own policy. */
  showBeside(answer, view) {
    const beside = this.beside();
    byId("beside-run").hidden = byId("main-name").hidden = !beside;
    document.querySelector("main").classList.toggle("two", Boolean(beside));
    if (!beside || !answer) return;
    byId("main-name").replaceChildren(...heading(this.#label(this.page.state().policy), view));
    byId("beside-name").replaceChildren(...heading(this.#labelBeside(), answer.view));
    byId("beside-problem").textContent = answer.problem;
    byId("beside-problem").hidden = !answer.problem;
    if (answer.picture) byId("beside-picture").replaceChildren(drawn(answer.picture));
    byId("beside-picture").hidden = !answer.picture;
    showNumbers(answer.view || null, this.page.listed(), "beside-");
  }

  #label(name) {
    const policies = this.page.policies(), own = policies.find((policy) => policy.name === name);
    if (!own) return name;
    return policies.filter((policy) => policy.label === own.label).length > 1 ? name : own.label;
  }

  #labelBeside() {
    const beside = this.beside(), label = this.#label(beside);
    return beside === this.page.state().policy ? `${label} at its start` : label;
  }

  // --- curves ---

  /** Draws the curves of the place that is shown; an answer to an older place is dropped. */
  async draw() {
    if (this.drawing) return;
    this.drawing = true;
    try {
      for (let key = this.#key(); key !== this.drawn; key = this.#key()) {
        const names = this.#names().filter((name) => this.#run(name).tag);
        const asked = this.page.question();
        const answers = await Promise.all(names.map((name) => ask("/api/training/curve", {...asked, policy: name})));
        if (key !== this.#key()) continue;
        const before = this.update();
        this.drawn = key;
        this.place = this.#place();
        this.curves = Object.fromEntries(names.map((name, number) => [name, answers[number].points]));
        const series = names.map((name) => ({label: this.#label(name), points: this.curves[name]}));
        drawCurves(byId("charts"), series, (cursor) => this.page.change({cursor}));
        byId("legend").hidden = series.length < 2;
        byId("legend").replaceChildren(...series.map((run, number) => legend(run.label, number)));
        tabulate(document.querySelector("#curve-table tbody"), series);
        byId("curve-says").textContent = answers.flatMap((answer) => answer.notes).join("\n");
        this.showControls();
        if (this.update() !== before) this.page.refresh(); // what was recorded of the position is known only now
      }
    } catch (error) {
      if (!(error instanceof RefusedError || error instanceof LostError)) throw error;
      if (error instanceof RefusedError) byId("curve-says").textContent = error.message;
    } finally {
      this.drawing = false;
    }
  }

  /** The position that is shown, with its game, as a text. */
  #place() {
    const {fen, moves, at} = this.page.state();
    return JSON.stringify([fen, moves.slice(0, at)]);
  }

  /** What the curves are of, as a text. */
  #key() {
    const {temperature} = this.page.question(), {set} = this.page.state();
    const runs = this.#names().map((name) => [name, this.#run(name).stops, set === "probe" ? this.#run(name).tag : ""]);
    return JSON.stringify([this.#place(), temperature, runs]);
  }

  // --- controls ---

  /** Shows where the slider is, and what is known of the runs. */
  showControls() {
    const frames = this.frames(), index = this.index(), names = this.#names();
    const {policy} = this.page.state(), beside = this.beside();
    const known = names.some((name) => this.#run(name).tag && (this.#run(name).row || this.#run(name).stops.length));
    const notes = names.flatMap((name) => this.#run(name).notes);
    byId("training").hidden = !known && this.page.policies().length < 2;
    byId("slider").hidden = !known;
    byId("curves").hidden = frames.length < 1;
    const slider = byId("cursor");
    slider.max = Math.max(0, frames.length - 1);
    slider.value = index;
    slider.disabled = frames.length < 2;
    const stop = this.#stop(policy);
    const text = frames.length ? `${frames[index].toLocaleString("en")} scored moves` +
      (stop ? `, update ${stop.update.toLocaleString("en")}` : this.#stops(policy).length ? ", no policy yet" : "") : "no policies on disk";
    slider.setAttribute("aria-valuetext", text);
    byId("cursor-value").textContent = text;
    if (frames.length) moveCursor(byId("charts"), frames[index]);
    byId("play-training").disabled = frames.length < 2;
    byId("play-training").textContent = this.playing ? "Stop" : "Play through training";
    byId("save-animation").disabled = !names.every((name) => this.#run(name).stops.length);
    const boards = [[policy, this.#label(policy), stop]];
    if (beside) boards.push([beside, this.#labelBeside(), this.#stopBeside()]);
    const said = boards.map(([name, label, at], number) => {
      const {row, health, noise} = this.#run(name), own = at ? at.row || `update ${at.update}` : row;
      const parts = [own, names[number] && health].filter(Boolean);
      return {line: parts.length && `${label}: ${parts.join(" · ")}`, noise: noise && `Of the held-out regret: ${noise}.`};
    });
    byId("run-says").textContent = [...said.map(({line}) => line), said.find(({noise}) => noise)?.noise].filter(Boolean).join("\n");
    byId("training-notes").textContent = notes.join("\n");
    this.#offer();
    this.#showSet();
  }

  /** Offers the policies for the place beside. */
  #offer() {
    const {policy} = this.page.state(), beside = this.beside();
    const offered = this.page.policies().filter((each) => each.name !== policy).map(({name}) => [name, this.#label(name)]);
    if (beside === policy || this.#run(policy).stops.length > 1) offered.push([policy, `${this.#label(policy)} at its start`]);
    if (this.offered !== JSON.stringify(offered)) {
      this.offered = JSON.stringify(offered);
      byId("beside").replaceChildren(...[["", "no other run"], ...offered].map(([value, label]) => new Option(label, value)));
    }
    byId("beside").disabled = !offered.length;
    byId("beside").value = beside;
  }

  /** Says where the run that the address names beside is not offered. */
  showPolicies() {
    const {beside} = this.page.state(), policies = this.page.policies();
    if (!beside || policies.some((policy) => policy.name === beside)) return;
    byId("training-says").textContent = `The address asks for “${beside}” beside, which is not offered here.`;
    this.page.state().beside = "";
  }

  // --- positions to step through ---

  #positions() {
    const {policy, set} = this.page.state();
    return this.lists[JSON.stringify([policy, set])];
  }

  #showSet() {
    const {set, n} = this.page.state(), positions = set && this.#positions();
    byId("set").value = set;
    byId("set-steps").hidden = !positions || !positions.length;
    if (set && !positions && this.#run(this.page.state().policy).stops.length) this.#list();
    if (!positions) return;
    const here = positions[n], count = positions.length.toLocaleString("en"), shown = here && here.fen === this.page.state().fen;
    byId("set-previous").disabled = n <= 0;
    byId("set-next").disabled = n >= positions.length - 1;
    byId("set-says").textContent = shown
      ? `${n + 1} of ${count}: ${here.name}, changed by ${(100 * here.change).toFixed(1)} %` : `${count} positions`;
  }

  /** Asks for the list until it is made. */
  async #list() {
    if (this.listing) return;
    this.listing = true;
    const {policy, set} = this.page.state(), key = JSON.stringify([policy, set]), progress = byId("set-progress");
    try {
      for (;;) {
        const answer = await this.#asked("/api/training/positions", {policy, set});
        if (answer.positions) {
          this.lists[key] = answer.positions;
          break;
        }
        if (answer.problem) throw new RefusedError(answer.problem);
        progress.hidden = false;
        progress.value = answer.progress;
        await pause(LIST_MS);
      }
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      byId("training-says").textContent = error.message;
      this.lists[key] = [];
    } finally {
      progress.hidden = true;
      this.listing = false;
    }
    const {fen, set: now, n} = this.page.state();
    if (!fen && now === set) this.#goTo(n);
    else this.showControls();
  }

  /** The answer of the server, also of one that is lost for a while: the page says that. */
  async #asked(path, question) {
    for (;;) {
      try {
        return await ask(path, question);
      } catch (error) {
        if (!(error instanceof LostError)) throw error;
        await pause(FOLLOW_MS);
      }
    }
  }

  #goTo(wanted) {
    const positions = this.#positions() || [], n = Math.min(wanted, positions.length - 1);
    if (positions[n]) this.page.change({n, fen: positions[n].fen, moves: [], at: 0, you: "both"});
    else this.showControls();
  }

  // --- what a user does ---

  #listen() {
    byId("cursor").addEventListener("input", (event) => {
      this.playing = false;
      this.#slide(Number(event.target.value));
    });
    byId("play-training").addEventListener("click", () => this.#play());
    byId("beside").addEventListener("change", (event) => {
      byId("training-says").textContent = "";
      this.page.change({beside: event.target.value});
    });
    byId("set").addEventListener("change", (event) => {
      byId("training-says").textContent = "";
      const set = event.target.value, known = JSON.stringify([this.page.state().policy, set]);
      if (this.lists[known] && !this.lists[known].length) delete this.lists[known]; // refused then: asked again
      this.page.change(set ? {set, n: 0, fen: "", moves: [], at: 0, you: "both"} : {set, n: 0});
      if (set && this.#positions()) this.#goTo(0);
    });
    byId("set-previous").addEventListener("click", () => this.#goTo(this.page.state().n - 1));
    byId("set-next").addEventListener("click", () => this.#goTo(this.page.state().n + 1));
    byId("save-animation").addEventListener("click", () => this.#save());
  }

  /** Goes to a frame; at the last one, new ones are followed. */
  #slide(index) {
    const frames = this.frames();
    return this.page.change({cursor: index >= frames.length - 1 ? null : frames[index]});
  }

  async #play() {
    if (this.playing) {
      this.playing = false;
      this.showControls();
      return;
    }
    this.playing = true;
    const count = this.frames().length, still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const step = still ? REDUCED_MS : Math.min(500, Math.max(100, PLAY_MS / count));
    const end = this.frames().length - 1, here = this.index();
    for (let index = here >= end ? 0 : here + 1; this.playing && index <= end; index += 1) {
      this.#slide(index);
      await pause(step);
    }
    this.playing = false;
    this.showControls();
  }

  async #save() {
    byId("training-says").textContent = "";
    try {
      const {svg} = await ask("/api/training/animation", {...this.page.question(), beside: this.#names()[1] || ""});
      saveFile("training.svg", "image/svg+xml", svg);
    } catch (error) {
      if (!(error instanceof RefusedError || error instanceof LostError)) throw error;
      byId("training-says").textContent = error instanceof LostError ? "The server does not answer." : error.message;
    }
  }
}

/** A run's name over its board, with what matters most there. */
function heading(label, view) {
  const best = view && view.moves[0];
  const rest = best ? `: ${view.entropy.toFixed(2)} nats, ${best.san} ${(100 * best.probability).toFixed(0)} %` : "";
  return [element("span", label), element("span", rest)];
}

function legend(label, number) {
  const item = element("li");
  item.append(element("span", "", `run${number}`), label);
  return item;
}
