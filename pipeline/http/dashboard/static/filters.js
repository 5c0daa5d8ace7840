// Filters apply while one types; the address follows, so that a view can be sent to somebody.
import { refresh } from "./refresh.js";

const QUIET_MS = 350;

export function startFilters() {
  for (const form of document.querySelectorAll("form[data-filters]")) {
    let timer = null;
    const apply = async () => {
      const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
      const address = `${form.getAttribute("action")}?${query}`;
      history.replaceState(null, "", address);
      try {
        await refresh(address);
      } catch (error) {
        if (error.name !== "AbortError") form.submit();
      }
    };
    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(apply, QUIET_MS);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(timer);
      apply();
    });
  }
  for (const select of document.querySelectorAll("select[data-go]")) {
    select.addEventListener("change", () => location.assign(select.value));
  }
}
