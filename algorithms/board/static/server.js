// Questions to the server: what takes long is shown, and a server that is lost is waited for.

const SHOW_AFTER_MS = 400, ASK_AGAIN_MS = 1000, GIVE_UP_MS = 30000;

/** The server answered that it cannot do what was asked; the message is its sentence. */
export class RefusedError extends Error {}

/** The server did not answer. */
export class LostError extends Error {}

let asking = 0;

/** The server's answer to one question, as an object. */
export async function ask(path, question = null) {
  const busy = document.getElementById("busy");
  const timer = setTimeout(() => { busy.hidden = false; }, SHOW_AFTER_MS);
  asking += 1;
  try {
    return await answered(path, question);
  } finally {
    clearTimeout(timer);
    asking -= 1;
    if (asking === 0) busy.hidden = true;
  }
}

async function answered(path, question) {
  const options = {signal: AbortSignal.timeout(GIVE_UP_MS)};
  if (question !== null) {
    options.method = "POST";
    options.headers = {"Content-Type": "application/json"};
    options.body = JSON.stringify(question);
  }
  let response, answer;
  try {
    response = await fetch(path, options);
    answer = await response.json();
  } catch (error) {
    throw new LostError(String(error));
  }
  if (!response.ok) throw new RefusedError(answer.error || "The server refused the question.");
  return answer;
}

/** Shows that the server is lost, and asks until it is back; its answer to /api/policies. */
export async function waitForServer() {
  const banner = document.getElementById("lost");
  banner.textContent = "The server does not answer. Was chess-lab board stopped? Trying again …";
  banner.hidden = false;
  for (;;) {
    try {
      const answer = await answered("/api/policies", null);
      banner.hidden = true;
      return answer;
    } catch (error) {
      if (!(error instanceof LostError)) throw error;
      await pause(ASK_AGAIN_MS);
    }
  }
}

export function pause(ms) {
  return new Promise((done) => { setTimeout(done, ms); });
}
