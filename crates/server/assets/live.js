// Keeps an open page up to date. Parts that may change are marked data-live="NAME"; the page is asked for again, politely, and
// those parts are put in place of the old ones. Everything works without this file.
"use strict";
(() => {
  const QUIET = 2000; // Milliseconds between two refreshes at least.
  const FALLBACK = 15000; // Milliseconds between refreshes where events cannot be heard.
  const pulse = document.getElementById("pulse");
  const hasLive = document.querySelector("main [data-live]") !== null;
  let last = Date.now();
  let waiting = null;
  let polling = null;

  const say = (text, waits) => {
    if (!pulse) return;
    pulse.hidden = false;
    pulse.textContent = text;
    pulse.classList.toggle("waiting", waits);
  };

  // Nothing moves under a hand: a part is left alone while one of its controls has the focus, or while the pointer is over a list
  // of buttons. Focus on a table or a summary is no hindrance: it is given back.
  const isUsed = (part) => {
    const active = document.activeElement;
    const holds = part.contains(active) && active.matches("input, select, textarea, button, a");
    return holds || [...part.querySelectorAll("[data-still]")].some((list) => list.matches(":hover"));
  };

  // What was opened and how far it was scrolled, by name where it has one: a list that grew moves the others.
  const keep = (part, each) => {
    part.querySelectorAll("details, .scroll, pre").forEach((element, n) => each(element.dataset.key || `${element.localName} ${n}`, element));
  };
  const nameOf = (part, focused) => {
    let name = null;
    keep(part, (key, element) => { if (element === focused || element === focused.closest("details")) name = key; });
    return name;
  };

  const replace = (text) => {
    let held = false;
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const newer = fresh.querySelector(`[data-live="${CSS.escape(part.dataset.live)}"]`);
      if (!newer || newer.innerHTML === part.innerHTML) continue;
      if (isUsed(part)) { held = true; continue; }
      const focused = part.contains(document.activeElement) ? nameOf(part, document.activeElement) : null;
      const kept = new Map();
      keep(part, (key, element) => kept.set(key, [element.open, element.scrollLeft, element.scrollTop]));
      part.replaceChildren(...[...newer.childNodes].map((node) => document.importNode(node, true)));
      keep(part, (key, element) => {
        if (!kept.has(key)) return;
        const [open, left, top] = kept.get(key);
        if (element.localName === "details") element.open = open;
        element.scrollLeft = left;
        element.scrollTop = top;
        if (key === focused) (element.localName === "details" ? element.querySelector("summary") : element).focus({ preventScroll: true });
      });
    }
    if (!pulse.classList.contains("waiting")) say(held ? "paused while in use" : "live", false);
  };

  // Only the newest answer counts: one that was asked for earlier may come later.
  let asking = null;
  const refresh = async (address) => {
    last = Date.now();
    if (asking) asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    try {
      const headers = { accept: "text/html", "x-refresh": "1" };
      const response = await fetch(address || location.href, { headers, credentials: "same-origin", signal });
      const text = await response.text();
      if (response.ok && !signal.aborted) replace(text);
    } catch {
      // It will be tried again with the next event.
    }
  };

  const soon = () => {
    if (waiting !== null || document.hidden) return;
    waiting = setTimeout(() => { waiting = null; refresh(); }, Math.max(0, QUIET - (Date.now() - last)));
  };

  const poll = () => {
    if (polling === null) polling = setInterval(() => { if (!document.hidden) refresh(); }, FALLBACK);
  };

  let events = null;
  const listen = () => {
    if (!("EventSource" in window)) return poll();
    events = new EventSource("/live");
    events.onopen = () => say("live", false);
    events.onerror = () => { say("waiting", true); poll(); };
    // A stream that ends as soon as it begins has not replaced the polling: one that tells something has.
    const heard = () => {
      if (polling !== null) { clearInterval(polling); polling = null; }
      soon();
    };
    for (const name of ["score", "standing", "verdict", "lagged"]) events.addEventListener(name, heard);
  };

  // Connections are few: a tab that nobody sees holds none.
  const follow = () => {
    if (document.hidden) {
      if (events) { events.close(); events = null; }
    } else if (!events) {
      listen();
      refresh();
    }
  };

  if (hasLive) {
    listen();
    document.addEventListener("visibilitychange", follow);
    window.addEventListener("pagehide", () => { if (events) { events.close(); events = null; } });
    const every = document.querySelector("[data-every]");
    if (every) setInterval(() => { if (!document.hidden) refresh(); }, 1000 * Number(every.dataset.every));
  }

  // Sliders: what they say, and a ranking that follows the hand.
  const view = document.querySelector("form[data-view]");
  if (view) {
    let moved = null;
    const own = view.elements.namedItem("own");
    const rank = () => {
      const pairs = new URLSearchParams(new FormData(view));
      for (const [name, value] of [...pairs]) if (value === "" || (!own.checked && name.startsWith("w."))) pairs.delete(name);
      const address = pairs.size ? `/?${pairs}` : "/";
      history.replaceState(null, "", address);
      refresh(address);
    };
    view.addEventListener("input", (event) => {
      const input = event.target;
      if (input.type === "range") {
        const said = view.querySelector(`output[for="${CSS.escape(input.id)}"]`);
        if (said) said.textContent = Number(input.value).toString();
        own.checked = true;
      }
      clearTimeout(moved);
      moved = setTimeout(rank, 150);
    });
    // The page that comes is the newest view: nothing of this one is to overtake it.
    view.addEventListener("submit", () => { clearTimeout(moved); if (asking) asking.abort(); });
  }
})();
