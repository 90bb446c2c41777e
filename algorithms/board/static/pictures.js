// Pictures that the server drew.

import {svg} from "./elements.js";

const SQUARE = 45; // as the server draws it

/** The element of an SVG's text. */
export function drawn(picture) {
  const read = new DOMParser().parseFromString(
    picture.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"'), "image/svg+xml");
  return document.importNode(read.documentElement, true);
}

/** Puts other men on a picture, with marks on the squares of the last move, and takes away what was drawn of the position before. */
export function redraw(picture, men, last, blackBelow) {
  picture.querySelectorAll(".arrow, .mark, [href^='#white-'], [href^='#black-']").forEach((each) => each.remove());
  const names = picture.querySelector("[href^='#names-']");
  const put = (tag, square, attributes) => {
    const [x, y] = [square % 8, Math.floor(square / 8)];
    const place = {x: SQUARE * (blackBelow ? 7 - x : x), y: SQUARE * (blackBelow ? y : 7 - y)};
    names.before(svg(tag, {...attributes, ...place}));
  };
  last.forEach((square) => put("rect", square, {class: "mark last", width: SQUARE, height: SQUARE}));
  men.forEach((man, square) => man && put("use", square, {href: "#" + man.replace(" ", "-")}));
}
