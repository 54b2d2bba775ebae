// Figures as SVG: error against size, speed and accuracy, estimates and truths, intervals.
const MOST_FIGURES = 24, MOST_DOTS = 3000; // more would keep a browser busy for seconds
const WIDTH = 360, HEIGHT = 250, LEFT = 46, RIGHT = 10, TOP = 10, BOTTOM = 34;

function ticks(low, high, many = 5) {
  const rough = (high - low) / many || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const factor of high / low > 300 ? [1] : high / low > 8 ? [1, 3] : [1, 2, 3, 5, 7]) {
      const at = factor * 10 ** power;
      if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
    }
  return found;
}

function scale(values, from, to, logarithmic = false, margin = 0.06) {
  const known = values.filter((one) => Number.isFinite(one) && (!logarithmic || one > 0));
  if (!known.length) known.push(1);
  const turn = logarithmic ? Math.log10 : (one) => one;
  let low = turn(least(known)), high = turn(greatest(known));
  const extra = (high - low) * margin || (logarithmic ? 0.15 : Math.abs(high) * 0.1 || 0.5);
  [low, high] = [low - extra, high + extra];
  const place = (one) => from + ((turn(one) - low) / (high - low)) * (to - from);
  place.ticks = logarithmic ? logTicks(10 ** low, 10 ** high) : ticks(low, high);
  return place;
}

function frame(x, y, xName, yName, height = HEIGHT, left = LEFT) {
  const parts = [];
  for (const at of x.ticks) parts.push(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP, y2: height - BOTTOM }),
    svg("text", { class: "faint", x: x(at), y: height - BOTTOM + 13, "text-anchor": "middle" }, digits(at)));
  for (const at of y ? y.ticks : []) parts.push(svg("line", { class: "grid", x1: left, x2: WIDTH - RIGHT, y1: y(at), y2: y(at) }),
    svg("text", { class: "faint", x: left - 4, y: y(at) + 4, "text-anchor": "end" }, digits(at)));
  parts.push(svg("text", { x: (left + WIDTH) / 2, y: height - 4, "text-anchor": "middle" }, xName));
  if (yName) parts.push(svg("text", { x: 11, y: (TOP + height - BOTTOM) / 2, transform: `rotate(-90 11 ${(TOP + height - BOTTOM) / 2})`, "text-anchor": "middle" }, yName));
  return parts;
}

function card(caption, parts, height = HEIGHT, double = false) {
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": caption }, parts);
  return element("figure", { class: double ? "double" : null }, element("figcaption", {}, caption), picture);
}

function dot(x, y, label, words, size = 3.5) {
  return svg("circle", { cx: x, cy: y, r: size, fill: colour(label), "fill-opacity": 0.85 }, svg("title", {}, words));
}

// One panel for each task and axis that takes several values while the rest stays as in the task's first setting.
function drawSweeps() {
  const axes = [["trajectories", "trajectories n"], ["length", "length T"], ["alpha", "behaviour α"]];
  const panels = [];
  for (const task of TASKS.filter((one) => !state.task || state.task.startsWith("*") || one === state.task)) {
    const own = DATA.settings.map((one, number) => ({ ...one, number })).filter((one) => one.task === task);
    for (const gamma of [...new Set(own.map((one) => one.gamma))]) {
      const group = own.filter((one) => one.gamma === gamma);
      for (const [axis, name] of axes) {
        const along = group.filter((one) => axes.every(([other]) => other === axis || one[other] === group[0][other]));
        if (new Set(along.map((one) => one[axis])).size > 1) panels.push(sweep(task, gamma, axis, name, along));
      }
    }
  }
  byId("sweeps-section").hidden = !panels.length;
  byId("sweeps").replaceChildren(...panels.slice(0, MOST_FIGURES));
}

function sweep(task, gamma, axis, name, along) {
  const points = linesOf(new Set(along.map((one) => one.number))).filter((one) => shown(one.estimator) && one.log_mse[0] !== null)
    .map((one) => ({ label: one.estimator, at: DATA.settings[one.setting][axis], value: one.log_mse[0], error: one.log_mse[1] || 0, single: one.log_mse[1] === null }));
  const x = scale(along.map((one) => one[axis]), LEFT, WIDTH - RIGHT, along.every((one) => one[axis] > 0) && axis !== "alpha");
  const y = scale(points.flatMap((one) => [one.value - one.error, one.value + one.error]), HEIGHT - BOTTOM, TOP);
  x.ticks = [...new Set(along.map((one) => one[axis]))];
  const parts = frame(x, y, name, "log₁₀ MSE");
  for (const label of inFront()) {
    const own = points.filter((one) => one.label === label).sort((a, b) => a.at - b.at);
    if (!own.length) continue;
    // A line through single runs would show their noise as a trend.
    if (!own.some((one) => one.single)) parts.push(svg("polyline", { points: own.map((one) => `${x(one.at)},${y(one.value)}`).join(" "), fill: "none", stroke: colour(label), "stroke-width": 2 }));
    for (const one of own) parts.push(svg("line", { x1: x(one.at), x2: x(one.at), y1: y(one.value - one.error), y2: y(one.value + one.error), stroke: colour(label) }),
      dot(x(one.at), y(one.value), label, `${label}: ${digits(one.value)} ± ${digits(one.error, 2)}`, 3));
  }
  return card(`${task}, γ=${gamma}`, parts);
}

function drawSpeed() {
  const groups = state.task === "" ? [["all settings", DATA.overall]]
    : settingsShown().slice(0, MOST_FIGURES).map((number) => [DATA.settings[number].label, linesOf(new Set([number]))]);
  byId("speed").replaceChildren(...groups.map(([caption, lines]) => {
    const known = lines.filter((one) => shown(one.estimator) && one.ratio[0] !== null && one.seconds[0] > 0);
    const x = scale(known.map((one) => one.seconds[0]), LEFT, WIDTH - RIGHT, true, 0.12), y = scale(known.map((one) => one.ratio[0]), HEIGHT - BOTTOM, TOP, true, 0.1);
    const parts = frame(x, y, "seconds an estimate", "RMSE ÷ on-policy");
    const taken = [];
    for (const one of known.sort((a, b) => inFront().indexOf(a.estimator) - inFront().indexOf(b.estimator))) {
      const [across, up] = [x(one.seconds[0]), y(one.ratio[0])];
      const long = 6.3 * one.estimator.length, right = across + 8 + long > WIDTH - RIGHT;
      const start = right ? across - 8 - long : across + 8;
      const free = (at) => at > TOP + 8 && at < HEIGHT - BOTTOM && !taken.some((other) => start < other.end && other.start < start + long && Math.abs(other.at - at) < 11);
      const at = [0, -11, 11, -22, 22].map((step) => up + 4 + step).find(free);
      if (at !== undefined) taken.push({ start, end: start + long, at });
      const error = one.ratio[1] || 0;
      if (error && error < one.ratio[0]) parts.push(svg("line", { x1: across, x2: across, y1: y(one.ratio[0] - error), y2: y(one.ratio[0] + error), stroke: colour(one.estimator) }));
      parts.push(dot(across, up, one.estimator, `${one.estimator}: ${digits(one.ratio[0])} in ${digits(one.seconds[0])} s`, 4.5));
      if (at !== undefined) parts.push(svg("text", { x: across + (right ? -8 : 8), y: at, "text-anchor": right ? "end" : "start" }, one.estimator));
    }
    return card(`Lower left is better: ${caption}`, parts);
  }));
}

function drawClose() {
  const setting = DATA.settings[state.setting];
  const cells = cellsOf(state.setting).filter((one) => shown(one.estimator) && one.value !== null);
  byId("close").hidden = !DATA.cells.length;
  const figures = [];
  if (setting.policies.some((one) => one.truth !== null)) figures.push(scatter(setting, cells));
  figures.push(intervals(setting, cells));
  byId("close").replaceChildren(...figures);
}

function scatter(setting, cells) {
  const truth = Object.fromEntries(setting.policies.map((one) => [one.name, one.truth]));
  const known = cells.filter((one) => truth[one.policy] !== null);
  const truths = known.map((one) => truth[one.policy]);
  const x = scale(truths, LEFT, WIDTH - RIGHT), y = scale([...truths, ...known.map((one) => one.value)], HEIGHT - BOTTOM, TOP);
  const ends = [least(truths), greatest(truths)];
  const parts = [...frame(x, y, "truth", "estimate"), svg("line", { class: "truth", x1: x(ends[0]), y1: y(ends[0]), x2: x(ends[1]), y2: y(ends[1]) })];
  const order = inFront();
  for (const one of some(known, MOST_DOTS).sort((a, b) => order.indexOf(a.estimator) - order.indexOf(b.estimator))) parts.push(dot(x(truth[one.policy]), y(one.value), one.estimator, `${one.estimator}, ${one.policy}, run ${one.run}: ${digits(one.value, 4)}`, 3));
  return card(known.length > MOST_DOTS ? `Estimate and truth, ${MOST_DOTS} of ${known.length.toLocaleString("en")} cells` : "Estimate and truth, every policy and run", parts);
}

// Policies from best to worst: by the truth, or where there is none by the estimators' mean.
function intervals(setting, cells) {
  const of = cells.filter((one) => one.run === state.run);
  const mean = (name) => { const own = of.filter((one) => one.policy === name); return own.reduce((sum, one) => sum + one.value, 0) / (own.length || 1); };
  const policies = setting.policies.map((one) => ({ ...one, rank: one.truth === null ? mean(one.name) : one.truth })).sort((a, b) => b.rank - a.rank);
  const labels = LABELS.filter((label) => shown(label) && of.some((one) => one.estimator === label));
  const step = 9, gap = 20, height = TOP + BOTTOM + policies.length * (labels.length * step + gap);
  const middle = of.map((one) => one.value).concat(setting.policies.map((one) => one.truth).filter((one) => one !== null)).sort((a, b) => a - b);
  const reach = (middle[middle.length - 1] - middle[0]) * 0.75 || 1;
  const inside = (one) => Math.max(middle[0] - reach, Math.min(middle[middle.length - 1] + reach, one));
  const x = scale([...middle, ...of.flatMap((one) => [one.low, one.high]).filter((one) => one !== null).map(inside)], 14, WIDTH - RIGHT);
  const parts = frame(x, null, "value, 95 % interval", "", height);
  policies.forEach((policy, place) => {
    const top = TOP + place * (labels.length * step + gap);
    parts.push(svg("text", { x: 14, y: top + 11, "font-weight": 600 }, policy.name));
    if (policy.truth !== null) parts.push(svg("line", { class: "truth", x1: x(policy.truth), x2: x(policy.truth), y1: top + 14, y2: top + gap + labels.length * step - 4 }));
    labels.forEach((label, row) => {
      const one = of.find((cell) => cell.policy === policy.name && cell.estimator === label);
      if (!one) return;
      const at = top + gap + row * step;
      if (one.low !== null) parts.push(svg("line", { x1: x(inside(one.low)), x2: x(inside(one.high)), y1: at, y2: at, stroke: colour(label), "stroke-width": 2, "stroke-opacity": 0.7 }));
      parts.push(dot(x(one.value), at, label, `${label}: ${digits(one.value, 4)} [${digits(one.low, 4)}, ${digits(one.high, 4)}] ${one.verdict}`, 3));
    });
  });
  return card(`Intervals of run ${state.run}, policies best first (dashed: the truth; long ones are cut)`, parts, height);
}
