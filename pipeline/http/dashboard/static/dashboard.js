// Every page works without this. It refreshes what is marked, asks before it acts, and saves a reload.
import { startLive } from "./live.js";
import { startDialogs } from "./dialogs.js";
import { startFilters } from "./filters.js";
import { startTimes, showTimes } from "./times.js";
import { startPicking } from "./picking.js";

startTimes();
startPicking();
startDialogs();
startFilters();
startLive();
document.addEventListener("refreshed", () => {
  showTimes();
  startPicking();
});
document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
