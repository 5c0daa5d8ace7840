// Ages go on between two refreshes; a title says the moment on the reader's own clock.
const UNITS = JSON.parse(document.body.dataset.units || "{}");
const skew = Number(document.body.dataset.now || Date.now()) - Date.now();

export function age(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  const part = (n, unit) => `${n}\u00a0${UNITS[unit]}`;
  if (s < 90) return part(s, "s");
  if (s < 5400) return part(Math.floor(s / 60), "min");
  if (s < 172800) {
    const minutes = Math.floor((s % 3600) / 60);
    return part(Math.floor(s / 3600), "h") + (s < 36000 && minutes ? ` ${part(minutes, "min")}` : "");
  }
  return part(Math.floor(s / 86400), "d");
}

export function showTimes() {
  const now = Date.now() + skew;
  const format = new Intl.DateTimeFormat(document.documentElement.lang, { dateStyle: "medium", timeStyle: "long" });
  for (const time of document.querySelectorAll("time[data-at]")) {
    const at = Number(time.dataset.at);
    time.title = format.format(at);
    if (!time.dataset.age) continue;
    const ms = time.dataset.age === "until" ? at - now : now - at;
    time.textContent = (time.dataset.around || "%").replace("%", age(ms));
  }
}

export function startTimes() {
  showTimes();
  setInterval(showTimes, 1000);
}
