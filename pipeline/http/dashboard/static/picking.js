// Tick all, and say how many are ticked.

export function startPicking() {
  for (const form of document.querySelectorAll("form[data-picking]")) {
    const boxes = () => [...form.querySelectorAll("input[name=id]")];
    const all = form.querySelector("input[data-all]");
    const said = form.querySelector("[data-picked]");
    const show = () => {
      const ticked = boxes().filter((box) => box.checked).length;
      if (said) said.textContent = ticked ? said.dataset.picked.replace("%", ticked) : said.dataset.none;
      for (const button of form.querySelectorAll("[data-needs-picked]")) button.disabled = ticked === 0;
      if (all) {
        all.checked = ticked > 0 && ticked === boxes().length;
        all.indeterminate = ticked > 0 && !all.checked;
      }
    };
    if (!form.dataset.started) {
      form.dataset.started = "yes";
      form.addEventListener("change", (event) => {
        if (event.target.matches("[data-all]")) for (const box of boxes()) box.checked = event.target.checked;
        show();
      });
    }
    show();
  }
}
