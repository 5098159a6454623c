const specs = JSON.parse(document.getElementById("specs").textContent);
const draw = place => {
  const given = place.querySelector("script");
  if (!given) return;
  const spec = { ...structuredClone(specs[place.dataset.plot]), data: { values: JSON.parse(given.textContent) } };
  const { from, to } = place.dataset;
  if (to) spec.encoding.x.scale.domain = [{ signal: from }, { signal: to }];
  vegaEmbed(place, spec, { actions: false, ast: true, renderer: "svg" })
    .catch(error => { place.textContent = "this plot cannot be drawn: " + error.message; });
};
const drawIn = part => part.querySelectorAll("[data-plot]").forEach(draw);
document.querySelectorAll("[data-plot]").forEach(place => place.closest("details:not([open])") || draw(place));
document.addEventListener("toggle", event => { if (event.target.open) drawIn(event.target); }, true);
document.querySelectorAll(".sortable th").forEach(head => head.addEventListener("click", () => {
  const body = head.closest("table").tBodies[0], at = head.cellIndex;
  const up = head.dataset.up = head.dataset.up === "1" ? "0" : "1";
  const key = row => { const cell = row.cells[at]; return cell.dataset.value ?? cell.textContent; };
  const compare = (a, b) => key(a) - key(b) || key(a).localeCompare(key(b), "en", { numeric: true });
  body.append(...[...body.rows].sort((a, b) => up === "1" ? compare(a, b) : compare(b, a)));
}));
const open = () => {
  const found = document.getElementById(location.hash.slice(1));
  if (found?.matches("details")) { found.open = true; found.scrollIntoView(); }
};
window.addEventListener("hashchange", open);
open();
document.getElementById("find")?.addEventListener("input", event => {
  const wanted = event.target.value.toLowerCase();
  document.querySelectorAll("[data-name]").forEach(each => {
    each.hidden = !each.dataset.name.toLowerCase().includes(wanted);
  });
});
