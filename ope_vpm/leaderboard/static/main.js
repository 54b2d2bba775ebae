// Filters, and drawing everything again when one changes.
function options(select, pairs, value, change) {
  select.replaceChildren(...pairs.map(([key, text]) => element("option", { value: key }, text)));
  select.value = value;
  select.onchange = () => change(select.value);
}

function drawFilters() {
  const tasks = [["", "all settings together"], ["*each", "all, setting by setting"], ...TASKS.map((one) => [one, one])];
  options(byId("task"), tasks, state.task, (value) => {
    state.task = value;
    if (!settingsShown().includes(state.setting)) choose(settingsShown()[0]);
    render();
  });
  byId("chips").replaceChildren(...LABELS.map((label) => element("button", { type: "button", class: "chip", "aria-pressed": String(shown(label)), "data-estimator": label,
    onclick: () => { if (!state.hidden.delete(label)) state.hidden.add(label); render(); } },
    element("i", { style: `background:${colour(label)}` }), label)));
  options(byId("setting"), settingsShown().map((number) => [number, DATA.settings[number].label]), state.setting, (value) => { choose(Number(value)); render(); });
  const policies = DATA.settings[state.setting].policies;
  options(byId("policy"), policies.map((one) => [one.name, one.truth === null ? one.name : `${one.name} (truth ${digits(one.truth, 4)})`]), state.policy, (value) => { state.policy = value; render(); });
}

function choose(setting) {
  state.setting = setting;
  state.policy = DATA.settings[setting].policies[0].name;
  const runs = cellsOf(setting).map((one) => one.run);
  state.run = runs.length ? least(runs) : 0;
}

function render() {
  const focused = document.activeElement && document.activeElement.closest("th, .chip");
  const table = focused && focused.closest("table");
  const place = focused ? [...focused.parentElement.children].indexOf(focused) : -1;
  drawFilters();
  drawRanking();
  drawSweeps();
  drawSpeed();
  drawClose();
  drawAgreement();
  drawCells();
  const again = place < 0 ? null : table ? table.querySelectorAll("thead th button")[place] : byId("chips").children[place];
  if (again) again.focus({ preventScroll: true });
}

choose(0);
render();
byId("note").textContent = DATA.note;
byId("note").hidden = !DATA.note;
byId("left-out").textContent = DATA.left_out.map((one) => `${one.estimator} is left out on ${one.task}, γ=${one.gamma}: ${one.reason}.`).join(" ");
byId("versions").textContent = `${DATA.runs} runs from seed ${DATA.first_seed}. ` + Object.entries(DATA.versions).map(([key, value]) => `${key} ${value}`).join(", ");
