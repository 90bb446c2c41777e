// Pictures that the server drew.

/** The element of an SVG's text. */
export function drawn(picture) {
  const read = new DOMParser().parseFromString(
    picture.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"'), "image/svg+xml");
  return document.importNode(read.documentElement, true);
}
