// Replaces the content with a fresh copy every two seconds while the page is visible. Without this
// script the page shows the state at the time when it was loaded.
"use strict";

const INTERVAL = 2000;

function warn(message) {
  let note = document.getElementById("stale");
  if (!note) {
    note = document.createElement("p");
    note.id = "stale";
    note.className = "stale";
    document.body.prepend(note);
  }
  note.textContent = message;
}

async function refresh() {
  if (document.hidden) return;
  try {
    const response = await fetch("./", { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (!response.ok) throw new Error(await response.text());
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    const content = fresh.getElementById("content");
    if (!content) throw new Error("the answer has no content");
    document.getElementById("content").replaceChildren(...content.childNodes);
    document.documentElement.dataset.refreshed = Date.now();
    document.getElementById("stale")?.remove();
  } catch (error) {
    warn(`Not refreshed: ${error.message}`);
  }
}

async function loop() {
  await refresh();
  setTimeout(loop, INTERVAL);
}

setTimeout(loop, INTERVAL);
document.addEventListener("visibilitychange", refresh);
