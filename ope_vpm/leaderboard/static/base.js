// What everything shares: the data, the filters, and how elements are made. Text only ever enters as text nodes.
const DATA = JSON.parse(document.getElementById("data").textContent);
DATA.lines = DATA.lines.rows.map((row) => Object.fromEntries(DATA.lines.names.map((name, place) => [name, row[place]])));
const LABELS = DATA.estimators.map((one) => one.label);
const TASKS = [...new Set(DATA.settings.map((one) => one.task))];
const SVG = "http://www.w3.org/2000/svg";
const state = { task: "", hidden: new Set(), setting: 0, policy: "", sort: {}, open: new Set(), run: 0, all: false };

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  return filled(made, attributes, children);
}

function svg(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  for (const child of children.flat()) made.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return made;
}

// The cells of a setting, unpacked from their blocks of columns when they are first asked for.
const VERDICTS = { r: "reliable", c: "caution", u: "unreliable" };
const unpacked = new Map();

function cellsOf(setting) {
  if (!unpacked.has(setting)) unpacked.set(setting, DATA.cells.filter((block) => block.setting === setting).flatMap(cellsIn));
  return unpacked.get(setting);
}

function cellsIn(block) {
  return block.run.map((run, place) => ({ setting: block.setting, policy: block.policy, estimator: block.estimator, run,
    seed: DATA.first_seed + run, value: block.value[place], low: block.low[place], high: block.high[place],
    standard_error: block.standard_error[place], effective_sample_size: block.effective_sample_size[place],
    seconds: block.seconds[place], verdict: VERDICTS[block.verdict[place]] || null, error: block.error[place] || null, block, place }));
}

// The least and the greatest of many numbers: a call with each of them as an argument fails at some hundred thousand.
const least = (values) => values.reduce((found, one) => Math.min(found, one), Infinity);
const greatest = (values) => values.reduce((found, one) => Math.max(found, one), -Infinity);
// At most so many of a list, evenly spread over it.
const some = (list, most) => (list.length <= most ? list : Array.from({ length: most }, (_, place) => list[Math.floor((place * list.length) / most)]));

const byId = (id) => document.getElementById(id);
const shown = (label) => !state.hidden.has(label);
// Eight colours that people can tell apart; everybody else is grey until somebody chooses it.
const COLOURS = 8;
const coloured = [...new Set([...DATA.overall.filter((one) => one.ratio[0] !== null).map((one) => one.estimator), ...LABELS])]
  .filter((label, place, all) => !DATA.groups.some((group) => group.includes(label) && group.some((other) => all.indexOf(other) < place && all.indexOf(other) >= 0)))
  .slice(0, COLOURS);
const colour = (label) => (coloured.includes(label) ? `var(--c${coloured.indexOf(label)})` : "var(--grey)");
const inFront = () => [...LABELS].sort((a, b) => Number(coloured.includes(a)) - Number(coloured.includes(b))); // grey below

function recolour(label) {
  const place = coloured.indexOf(label);
  if (place >= 0) coloured[place] = null;
  else if (coloured.includes(null)) coloured[coloured.indexOf(null)] = label;
  else if (coloured.length < COLOURS) coloured.push(label);
  else coloured[COLOURS - 1] = label;
  render();
}

const settingsShown = () =>
  DATA.settings.map((one, number) => number).filter((number) => !state.task || state.task.startsWith("*") || DATA.settings[number].task === state.task);

function digits(value, most = 3) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toPrecision(most)));
}

function withError(pair) {
  const [value, error] = pair;
  if (value === null) return { value: "–", error: "" };
  if (!error) return { value: digits(value), error: "" };
  const places = Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(error))));
  return { value: value.toFixed(places), error: `± ${error.toFixed(places)}` };
}
