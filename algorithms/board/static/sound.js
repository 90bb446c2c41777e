// A short quiet click for a move, and a higher one for a capture or a check, where the player wants them; no file.

const NAME = "sound", SECONDS = 0.07, LOUDNESS = 0.1; // of 1

let context = null;

/** The choice that the browser keeps: no part of the address, since a link must not make another one's browser sound. */
function kept(choice = null) {
  try {
    if (choice !== null) localStorage.setItem(NAME, choice);
    return localStorage.getItem(NAME);
  } catch (error) {
    if (!(error instanceof DOMException)) throw error; // a browser that keeps nothing: the choice lasts as long as the page
    return choice;
  }
}

/** Lets a checkbox switch the sounds, as it was left the last time. */
export function listenToSwitch(box) {
  box.checked = kept() === "1";
  box.addEventListener("change", () => {
    kept(box.checked ? "1" : "0");
    if (box.checked) click("");
  });
}

/** Sounds for a move with this SAN. */
export function click(san) {
  if (!document.getElementById("sound").checked || navigator.userActivation?.hasBeenActive === false) return; // not allowed yet
  context ??= new AudioContext();
  const tone = context.createOscillator(), loudness = context.createGain(), now = context.currentTime;
  tone.type = "triangle";
  tone.frequency.value = /[x+#]/.test(san) ? 660 : 330;
  loudness.gain.setValueAtTime(LOUDNESS, now);
  loudness.gain.exponentialRampToValueAtTime(LOUDNESS / 100, now + SECONDS);
  tone.connect(loudness).connect(context.destination);
  tone.start(now);
  tone.stop(now + SECONDS);
}
