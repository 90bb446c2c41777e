// The board as a grid of 64 buttons over the picture: a man is moved by clicks, by dragging, or by keys, also before its turn.

import {element, svg} from "./elements.js";

const FILES = "abcdefgh";
const KEYS = {ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0]};
const DRAG_PIXELS = 5;

/** The name of a square 0 .. 63, a1 first. */
export function squareName(square) {
  return FILES[square % 8] + (Math.floor(square / 8) + 1);
}

/**
 * Makes the grid.
 *
 * grid: its element. moved(moves): called with the legal moves between two squares, one or, for a promotion, more; of
 * those to plan with the one that was planned.
 */
export class Squares {
  constructor(grid, moved) {
    this.grid = grid;
    this.moved = moved;
    this.taken = null;
    this.place = [0, 7];
    this.buttons = [];
    this.legal = [];
    this.early = []; // what may be planned while it is not the player's turn
    this.planned = null; // one of them
    this.men = [];
    this.black = false;
    this.drag = null;
    this.pointed = false; // at a square, not walked to it
    for (let row = 0; row < 8; row += 1) {
      const line = element("div");
      line.setAttribute("role", "row");
      for (let column = 0; column < 8; column += 1) line.append(this.#button(column, row));
      grid.append(line);
    }
    grid.addEventListener("keydown", (event) => this.#key(event));
    grid.addEventListener("pointerdown", (event) => this.#down(event));
    grid.addEventListener("pointermove", (event) => this.#drag(event));
    grid.addEventListener("pointerup", (event) => this.#up(event));
    grid.addEventListener("focusout", (event) => { this.pointed &&= grid.contains(event.relatedTarget); });
    grid.addEventListener("pointercancel", () => this.#drop());
    grid.addEventListener("contextmenu", (event) => {
      if (!this.planned) return;
      event.preventDefault();
      this.release();
    });
    document.addEventListener("pointerdown", (event) => { if (this.planned && !grid.contains(event.target)) this.release(); });
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") this.release(); });
    this.#focusable();
  }

  /** Shows a position: men by square, legal moves of whoever may move by hand, which side is below, and moves to plan. */
  show(men, legal, black, early = []) {
    const same = this.early.length ? this.men[this.taken] === men[this.taken] : this.men.join() === men.join();
    if (!same || this.black !== black) this.taken = null; // a man that was taken up before its turn stays so
    Object.assign(this, {men, legal, black, early, planned: null});
    this.#draw();
  }

  /** Lets go of a man that is taken up, and of a planned move. */
  release() {
    this.taken = this.planned = null;
    this.#draw();
  }

  get #moves() {
    return [...this.legal, ...this.early];
  }

  #button(column, row) {
    const button = element("button");
    button.type = "button";
    button.setAttribute("role", "gridcell");
    button.dataset.column = column;
    button.dataset.row = row;
    button.addEventListener("click", (event) => {
      if (event.detail === 0 || !this.clicked) this.#choose(this.#square(column, row));
      this.clicked = false;
    });
    this.buttons.push(button);
    return button;
  }

  #square(column, row) {
    return this.black ? row * 8 + 7 - column : (7 - row) * 8 + column;
  }

  #of(event) {
    const under = document.elementFromPoint(event.clientX, event.clientY);
    const button = under && under.closest("#squares button");
    return button && this.#square(Number(button.dataset.column), Number(button.dataset.row));
  }

  #draw() {
    const targets = new Set(this.#moves.filter((move) => move.from === this.taken).map((move) => move.to));
    const own = new Set(this.#moves.map((move) => move.from));
    const planned = this.planned ? [this.planned.from, this.planned.to] : [];
    this.grid.classList.toggle("early", this.early.length > 0);
    for (const button of this.buttons) {
      const square = this.#square(Number(button.dataset.column), Number(button.dataset.row));
      const man = this.men[square];
      const notes = [squareName(square), man || "empty"];
      if (square === this.taken) notes.push("taken up");
      if (targets.has(square)) notes.push("can be reached");
      if (planned.includes(square)) notes.push("premove");
      button.dataset.square = squareName(square);
      button.setAttribute("aria-label", notes.join(", "));
      button.setAttribute("aria-selected", String(square === this.taken));
      button.classList.toggle("own", own.has(square));
      button.classList.toggle("man", Boolean(man));
      button.classList.toggle("taken", square === this.taken);
      button.classList.toggle("target", targets.has(square));
      button.classList.toggle("planned", planned.includes(square));
    }
  }

  #choose(square) {
    const moves = this.#moves.filter((move) => move.from === this.taken && move.to === square);
    this.planned = this.early.length && moves.length ? moves[0] : null;
    if (moves.length) {
      this.taken = null;
      this.#draw();
      this.moved(moves);
      return;
    }
    const own = this.#moves.some((move) => move.from === square);
    this.taken = own && square !== this.taken ? square : null;
    this.#draw();
  }

  #key(event) {
    const step = KEYS[event.key];
    if (!step || (this.pointed && step[0])) return; // after a click, left and right go through the game
    this.pointed = false;
    event.preventDefault();
    const inside = (number) => Math.min(7, Math.max(0, number));
    const {column, row} = event.target.dataset;
    this.place = [inside(Number(column) + step[0]), inside(Number(row) + step[1])];
    this.#focusable().focus();
  }

  #focusable() {
    const at = this.place[1] * 8 + this.place[0];
    this.buttons.forEach((button, index) => { button.tabIndex = index === at ? 0 : -1; });
    return this.buttons[at];
  }

  #down(event) {
    const button = event.target.closest("button");
    if (!button || event.button !== 0) return;
    this.pointed = true;
    this.place = [Number(button.dataset.column), Number(button.dataset.row)];
    this.#focusable();
    const square = this.#square(...this.place);
    if (this.#moves.some((move) => move.from === square)) {
      this.drag = {square, x: event.clientX, y: event.clientY, ghost: null, size: button.clientWidth};
    }
  }

  #drag(event) {
    const drag = this.drag;
    if (!drag) return;
    if (!drag.ghost) {
      if (Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < DRAG_PIXELS) return;
      this.grid.setPointerCapture(event.pointerId);
      this.taken = drag.square;
      this.#draw();
      drag.ghost = man(this.men[drag.square]);
      drag.ghost.classList.add("ghost");
      drag.ghost.setAttribute("width", drag.size);
      drag.ghost.setAttribute("height", drag.size);
      document.body.append(drag.ghost);
    }
    const [x, y] = [event.clientX - drag.size / 2, event.clientY - drag.size / 2];
    drag.ghost.style.transform = `translate(${x}px, ${y}px)`;
  }

  #up(event) {
    const drag = this.drag;
    this.#drop();
    if (!drag || !drag.ghost) return;
    this.clicked = true; // the click that may follow belongs to the drag
    setTimeout(() => { this.clicked = false; }, 0);
    const square = this.#of(event);
    if (square !== null && square !== drag.square) this.#choose(square);
    else this.release();
  }

  #drop() {
    if (this.drag && this.drag.ghost) this.drag.ghost.remove();
    this.drag = null;
  }
}

/** An SVG with one man, such as "white pawn"; the page has its drawing. */
export function man(name) {
  const drawing = svg("svg", {viewBox: "0 0 45 45", "aria-hidden": "true"});
  drawing.append(svg("use", {href: "#" + name.replace(" ", "-")}));
  return drawing;
}
