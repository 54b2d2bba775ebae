// Sortable tables: the ranking, agreement between estimators, and single cells with their details.
const MOST_ROWS = 300; // a browser lays out so many at once without a pause; sorting brings the others up

function draw(table, columns, rows, first) {
  const name = table.id;
  const order = state.sort[name] || first;
  if (order) rows = sorted(rows, columns.find((one) => one.key === order.key), order.down);
  const heads = columns.map((one) => {
    const down = order && order.key === one.key ? order.down : null;
    const click = () => {
      state.sort[name] = { key: one.key, down: down === null ? Boolean(one.down) : !down };
      render();
    };
    const sort = down === null ? "none" : down ? "descending" : "ascending";
    return element("th", { scope: "col", class: one.text ? "text" : one.key === "mark" ? "mark" : null, "aria-sort": sort },
      element("button", { type: "button", title: one.title || "Sort", onclick: click }, one.head));
  });
  const body = rows.slice(0, MOST_ROWS).flatMap((row) => rowsOf(row, columns));
  if (rows.length > MOST_ROWS) body.push(element("tr", {}, element("td", { class: "text quiet", colspan: columns.length },
    `The first ${MOST_ROWS} of ${rows.length.toLocaleString("en")} rows: sort or choose to see others.`)));
  table.replaceChildren(element("thead", {}, element("tr", {}, heads)), element("tbody", {}, body));
}

function sorted(rows, column, down) {
  const absent = (value) => value === null || value === undefined || value === "";
  return [...rows].sort((a, b) => {
    const [x, y] = [column.sort(a), column.sort(b)];
    if (absent(x) || absent(y)) return Number(absent(x)) - Number(absent(y));
    const before = typeof x === "string" ? x.localeCompare(y) : x - y;
    return down ? -before : before;
  });
}

function rowsOf(row, columns) {
  const made = element("tr", { class: row.className, "data-estimator": row.estimator },
    columns.map((one) => element("td", { class: one.text ? "text" : null }, one.show(row))));
  if (!row.details) return [made];
  made.tabIndex = 0;
  made.setAttribute("aria-expanded", String(state.open.has(row.key)));
  const toggle = () => {
    if (!state.open.delete(row.key)) state.open.add(row.key);
    render();
  };
  made.addEventListener("click", toggle);
  made.addEventListener("keydown", (event) => { if (event.key === "Enter") toggle(); });
  if (!state.open.has(row.key)) return [made];
  return [made, element("tr", {}, element("td", { class: "details", colspan: columns.length }, row.details()))];
}

const named = (label) => [element("button", { type: "button", class: "swatch", style: `background:${colour(label)}`, title: "Colour or grey", "aria-label": `colour of ${label}`,
  onclick: (event) => { event.stopPropagation(); recolour(label); } }), label];
const star = (row) => (row.best ? "★" : row.level ? "☆" : "");

function metricColumn(key) {
  const good = { rank_correlation: true, coverage: true, verdicts_right: true, reliable_and_covered: true };
  const show = (row) => {
    const text = withError(row[key]);
    return [text.value, " ", element("span", { class: "error" }, text.error)];
  };
  return { key, head: DATA.metrics[key], down: good[key], title: MEANING[key], show, sort: (row) => (key === "bias" && row[key][0] !== null ? Math.abs(row[key][0]) : row[key][0]) };
}

const HEADLINES = ["confidently_wrong", "reliable_and_covered"]; // every table shows them
const MEANING = {
  confidently_wrong: "Share of 'reliable' answers more than three on-policy errors off whose interval does not hold the truth",
  reliable_and_covered: "Share of 'reliable' answers whose interval holds the truth",
  ratio: "RMSE over runs, as a multiple of an on-policy mean of as many episodes; geometric mean over policies",
  log_mse: "log₁₀ of the mean squared error over runs, averaged over policies",
  absolute_error: "Mean absolute error",
  bias: "Mean error; sorted by its size",
  rank_correlation: "Spearman's correlation of estimates and truths over policies",
  regret_1: "What is lost by taking the policy that looks best, as a share of best minus worst",
  regret_3: "The same when the best of the three that look best is kept",
  coverage: "Share of 95 % intervals that hold the truth",
  width: "Mean width of the intervals",
  verdicts_right: "Share of 'reliable' within three on-policy errors of the truth and of 'unreliable' beyond them",
  seconds: "Seconds of one core for an estimate",
};

const KEY_COLUMNS = [DATA.overall.some((one) => one.ratio[0] !== null) ? "ratio" : "log_mse", ...HEADLINES, "rank_correlation", "coverage", "seconds"]; // what fits a page; a button shows all

// The rows with groups of estimators that agree by construction as one, which opens.
function grouped(rows, groupsOf) {
  const first = new Map();
  const kept = [];
  for (const row of rows) {
    const group = groupsOf(row).find((one) => one.includes(row.estimator));
    const key = group && `${row.setting} ${group.join(" ")}`;
    if (!group || !first.has(key)) {
      if (group) first.set(key, row);
      kept.push(group ? { ...row, group: key, alike: group.filter((one) => one !== row.estimator && shown(one)) } : row);
    } else if (state.open.has(key)) kept.push({ ...row, className: `${row.className} member` });
  }
  return kept;
}

function nameCell(row) {
  if (!row.alike || !row.alike.length) return named(row.estimator);
  const toggle = () => { if (!state.open.delete(row.group)) state.open.add(row.group); render(); };
  const words = state.open.has(row.group) ? "− the same by construction" : `+ ${row.alike.length} alike: ${row.alike.slice(0, 2).join(", ")}${row.alike.length > 2 ? ", …" : ""}`;
  return [...named(row.estimator), element("button", { type: "button", class: "alike", "aria-expanded": String(state.open.has(row.group)), title: row.alike.join(", "), onclick: toggle }, words)];
}

const linesOf = (settings) => DATA.lines.filter((one) => settings.has(one.setting));

function drawRanking() {
  const together = state.task === "";
  const lines = together ? DATA.overall : linesOf(new Set(settingsShown()));
  const all = lines.filter((one) => shown(one.estimator))
    .map((one) => ({ ...one, className: one.best ? "best" : "", label: together ? "" : DATA.settings[one.setting].label }));
  const rows = grouped(all, (row) => (together ? DATA.groups : DATA.settings[row.setting].groups));
  const known = Object.keys(DATA.metrics).filter((key) => HEADLINES.includes(key) || all.some((row) => row[key][0] !== null));
  const few = state.all ? known : known.filter((key) => KEY_COLUMNS.includes(key));
  const columns = [{ key: "estimator", head: "estimator", text: true, show: nameCell, sort: (row) => row.estimator },
    { key: "mark", head: "★", title: "★ the best, ☆ not significantly worse", show: (row) => star(row), sort: (row) => (row.best ? 0 : row.level ? 1 : 2) }];
  const most = greatest(DATA.overall.map((one) => one.settings));
  const some = together && all.some((row) => row.settings < most);
  if (some) columns.push({ key: "against", head: "error ÷ ★", title: "Its error ÷ that of ★ on the settings that both have: rows are ranked by it", show: (row) => digits(row.against_best, 3), sort: (row) => row.against_best });
  if (!together) columns.push({ key: "setting", head: "setting", text: true, show: (row) => row.label, sort: (row) => row.setting });
  for (const key of few) columns.push(metricColumn(key));
  const counts = [{ key: "reliable", head: "“reliable”", down: true, title: "How many answers were called reliable, where the truth is known", show: (row) => row.reliable, sort: (row) => row.reliable },
    { key: "p_value", head: "p", title: "p-value of being no worse than the best: paired bootstrap over runs", show: (row) => digits(row.p_value, 2), sort: (row) => row.p_value }];
  if (state.all) columns.push(...counts);
  if (state.all || all.some((row) => row.failed)) columns.push({ key: "failed", head: "failed", title: "Cells without a value", show: (row) => row.failed || "", sort: (row) => row.failed });
  if (some) columns.push({ key: "settings", head: "settings", title: "On how many settings it ran: its other numbers are about these alone", show: (row) => `${row.settings} of ${most}`, sort: (row) => row.settings });
  draw(byId("ranking"), columns, rows, null);
  byId("columns").textContent = state.all ? "Fewer columns" : "All columns";
  byId("columns").onclick = () => { state.all = !state.all; render(); };
  byId("meanings").querySelector("dl").replaceChildren(...columns.filter((one) => one.title).flatMap((one) => [element("dt", {}, one.head), element("dd", {}, one.title)]));
  byId("explanation").textContent = all.some((row) => row.log_mse[0] !== null)
    ? "★ the lowest error; ☆ not significantly worse (paired bootstrap over runs, 5 %): a lone ★ has beaten everybody. Each number ± its standard error over runs; – where it is not defined."
      + (some ? " Who ran on some settings only is ranked after ★ by how it did there beside it (error ÷ ★)." : "")
      + (DATA.missing ? ` Not finished: ${DATA.missing} of ${DATA.missing + DATA.finished} cells are missing.` : "")
    : "No truth is known here: see how estimators rank the policies below, and how far they agree.";
}

function drawAgreement() {
  const known = DATA.settings[state.setting].agreement;
  const labels = known.estimators.filter(shown);
  byId("agreement").parentElement.hidden = labels.length < 2;
  const at = (label) => known.estimators.indexOf(label);
  const columns = [{ key: "estimator", head: "", text: true, show: (row) => named(row.estimator), sort: (row) => row.estimator },
    ...labels.map((label) => ({ key: label, head: label, down: true, show: (row) => known.matrix[at(row.estimator)][at(label)].toFixed(2), sort: (row) => known.matrix[at(row.estimator)][at(label)] }))];
  draw(byId("agreement"), columns, labels.map((estimator) => ({ estimator })), null);
}

function drawCells() {
  const cells = cellsOf(state.setting).filter((one) => one.policy === state.policy && shown(one.estimator));
  byId("cells-section").hidden = !DATA.cells.length;
  const truth = DATA.settings[state.setting].policies.find((one) => one.name === state.policy).truth;
  const rows = cells.map((one) => ({ ...one, className: "cell", key: `${one.policy} ${one.estimator} ${one.run}`, distance: truth === null || one.value === null ? null : one.value - truth, details: () => details(one, truth) }));
  const number = (key, head, title) => ({ key, head, title, show: (row) => digits(row[key], 4), sort: (row) => row[key] });
  const columns = [{ key: "estimator", head: "estimator", text: true, show: (row) => named(row.estimator), sort: (row) => row.estimator },
    number("run", "run"), number("value", "value"), number("low", "from", "Lower end of the 95 % interval"), number("high", "to", "Upper end of the 95 % interval")];
  if (truth !== null) columns.push(number("distance", "error", "value − truth"));
  columns.push({ key: "verdict", head: "verdict", text: true, sort: (row) => row.verdict || "failed",
    show: (row) => element("span", { class: row.error ? "failed" : row.verdict }, row.error ? "failed" : row.verdict || "") }, number("seconds", "seconds"));
  draw(byId("cells"), columns, rows, null);
}

function details(cell, truth) {
  const estimator = DATA.estimators.find((one) => one.label === cell.estimator);
  const setting = DATA.settings[cell.setting];
  const { block, place } = cell;
  const texts = (name) => ((block[name] || {})[place] || []).join("; ");
  const diagnostics = Object.entries(block.diagnostics || {}).map(([key, column]) => [key, column[place]]).filter(([, value]) => value !== null);
  const facts = [["setting", setting.label], ["policy", cell.policy], ["truth", truth === null ? "not known" : digits(truth, 6)],
    ["estimator", `${estimator.name} ${JSON.stringify(estimator.settings)}`], ["seed", cell.seed], ["standard error", digits(cell.standard_error, 4)],
    ["effective sample size", digits(cell.effective_sample_size, 4)], ["why", texts("reasons")], ["failed with", cell.error || ""], ["warnings", texts("warnings")],
    ...diagnostics.map(([key, value]) => [key.replaceAll("_", " "), typeof value === "number" ? digits(value, 5) : JSON.stringify(value)]),
    ["key", block.key ? block.key[place] : "in cells.csv"]];
  return element("dl", {}, facts.filter(([, value]) => value !== "").flatMap(([key, value]) => [element("dt", {}, key), element("dd", {}, value)]));
}
