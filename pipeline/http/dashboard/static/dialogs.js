// What changes something is confirmed in a dialog: the same page that is shown without JavaScript, put into one.

export function startDialogs() {
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    const asks = event.submitter?.hasAttribute("data-confirm") || form.hasAttribute("data-confirm");
    if (!asks || form.dataset.plain) return;
    event.preventDefault();
    const action = event.submitter?.getAttribute("formaction") || form.getAttribute("action");
    const body = new URLSearchParams(new FormData(form, event.submitter));
    try {
      const answer = await fetch(action, { method: "POST", body, credentials: "same-origin" });
      if (answer.redirected) return location.assign(answer.url);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const question = page.querySelector(".confirm");
      if (!question) throw new Error("nothing to ask");
      open(question, event.submitter);
    } catch {
      form.dataset.plain = "yes";
      form.requestSubmit(event.submitter);
    }
  });
}

function open(question, opener) {
  const dialog = document.createElement("dialog");
  question.classList.remove("card");
  dialog.append(question);
  dialog.setAttribute("aria-labelledby", "question");
  dialog.addEventListener("close", () => {
    dialog.remove();
    opener?.focus();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-back]")) {
      event.preventDefault();
      dialog.close();
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector("[data-back]")?.focus();
}
