// Take the marked parts of a page anew from the server, keeping what a person ticked, opened or is typing.

let running = null;

export async function refresh(address = location.href) {
  running?.abort();
  running = new AbortController();
  const answer = await fetch(address, {
    signal: running.signal,
    headers: { accept: "text/html" },
    credentials: "same-origin",
  });
  if (answer.redirected && new URL(answer.url).pathname === "/sign-in") {
    location.assign(answer.url);
    return false;
  }
  if (answer.status === 404) return location.reload(); // what it was about is gone: say so
  if (!answer.ok) throw new Error(`${answer.status}`);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (document.getElementById("problem") && !fresh.getElementById("problem")) location.reload();
  put(fresh);
  return true;
}

export function put(fresh) {
  for (const part of document.querySelectorAll("[data-part]")) {
    const next = fresh.getElementById(part.id);
    if (!next) continue;
    if (part.dataset.was === next.innerHTML) continue;
    if (part.contains(document.activeElement) && /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName) &&
        document.activeElement.type !== "checkbox") continue;
    const ticked = new Set([...part.querySelectorAll("input:checked")].map((one) => one.value));
    const focused = part.contains(document.activeElement) ? keyOf(document.activeElement) : null;
    const was = next.innerHTML;
    part.replaceChildren(...next.childNodes);
    part.dataset.was = was;
    for (const box of part.querySelectorAll("input[type=checkbox]")) {
      if (ticked.has(box.value)) box.checked = true;
    }
    if (focused) [...part.querySelectorAll("a, button, input")].find((one) => keyOf(one) === focused)?.focus();
  }
  document.dispatchEvent(new Event("refreshed"));
}

function keyOf(element) {
  return [element.tagName, element.getAttribute("href"), element.name, element.value, element.textContent].join("|");
}
