// The server says when something changed; the page then asks for itself. Without a stream it asks every few seconds.
import { refresh } from "./refresh.js";

const POLL_MS = 5000;
const LEAST_MS = 800;

export function startLive() {
  const sign = document.querySelector("[data-live-state]");
  const topic = document.body.dataset.topic;
  if (!sign || !topic) return;
  let last = 0;
  let waiting = null;
  let stream = null;
  let polling = null;

  const show = (state) => {
    sign.dataset.liveState = state;
    sign.textContent = sign.dataset[state];
  };
  const look = async () => {
    waiting = null;
    if (document.hidden || document.querySelector("dialog[open]")) return;
    last = performance.now();
    try {
      await refresh();
      show(stream?.readyState === EventSource.OPEN ? "on" : "polling");
    } catch (error) {
      if (error.name !== "AbortError") show("off");
    }
  };
  const soon = () => {
    waiting ??= setTimeout(look, Math.max(0, LEAST_MS - (performance.now() - last)));
  };
  const poll = (on) => {
    clearInterval(polling);
    polling = on ? setInterval(soon, POLL_MS) : null;
  };
  const listen = () => {
    stream = new EventSource(`/live?topic=${encodeURIComponent(topic)}`);
    stream.addEventListener("open", () => { show("on"); poll(false); });
    stream.addEventListener("changed", soon);
    stream.addEventListener("error", () => { show("polling"); poll(true); });
  };
  const leave = () => {
    stream?.close();
    poll(false);
  };
  if (!document.hidden) listen();
  document.addEventListener("visibilitychange", () => {
    leave(); // a browser has six connections to a server, for all of its tabs
    if (document.hidden) return;
    listen();
    soon();
  });
  addEventListener("pagehide", leave);
  addEventListener("pageshow", (event) => { if (event.persisted) listen(); });
}
