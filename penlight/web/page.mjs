// What the page of `penlight serve` does: loads the model that the server offers (model.json says what it is), runs it on a picture or
// on the inputs that come with it, shows results and how long a run takes here. All on this device: nothing is sent back.
import { ARRAYS, Penlight } from "./penlight.mjs";
import { preprocess } from "./preprocess.mjs";

const WARM_UP_MS = 500, MEASURE_MS = 4000, FEWEST = 5, MOST = 50, SAMPLE_MS = 5; // a sample: runs until the clock can tell
const element = (id) => document.getElementById(id);
const show = (id) => (element(id).hidden = false);
const state = (name) => (document.querySelector("main").dataset.state = name);
const pause = () => new Promise((next) => setTimeout(next)); // lets the page be drawn
const in_bytes = (n) => (n >= 1e6 ? `${(n / 1e6).toPrecision(3)} MB` : `${Math.ceil(n / 1e3)} kB`);
const in_ms = (ms) => (ms < 0.995 ? `${(ms * 1e3).toPrecision(3)} µs` : ms < 999.5 ? `${ms.toPrecision(3)} ms` : `${(ms / 1e3).toPrecision(3)} s`);

/** A step of the page; what it throws is shown. One at a time: who asks meanwhile, waits. */
let last = Promise.resolve();
function step(work) {
  last = last.then(async () => {
    state("busy");
    element("failed").hidden = true;
    try {
      await work();
      state("done");
    } catch (e) {
      show("failed");
      element("error").textContent = e.message;
      state("failed");
      console.error(e);
    }
  });
  return last;
}

const fetched = async (name) => {
  const response = await fetch(name);
  if (!response.ok) throw new Error(`${name}: expected a file from the server, got ${response.status} ${response.statusText}`);
  return response;
};

let about, model;
await step(async () => {
  about = await (await fetched("model.json")).json();
  document.title = element("name").textContent = about.name;
  element("about").textContent = `loading ${in_bytes(about.bytes)} …`;
  model = await Penlight.load("penlight.wasm", await (await fetched("model.pen")).arrayBuffer());
  element("about").textContent = `${in_bytes(about.bytes)} model, ${in_bytes(about.wasm_bytes)} runtime; nothing leaves this device`;
  element("device").textContent = navigator.userAgent;
  if (about.preprocessing === null) {
    element("inputs").textContent = `Runs on ${about.inputs_from}.`;
    show("again");
    await run(about.inputs.map(value));
  } else {
    show("picture");
  }
});
element("run").onclick = () => step(() => run(about.inputs.map(value)));
for (const id of ["camera", "file"]) element(id).onchange = ({ target }) => target.files.length && step(() => look(target.files[0]));

/** A value as model.json writes it: serve.py, _written. */
function value(written) {
  if (written === null || typeof written !== "object") return written;
  if (written.int !== undefined) return BigInt(written.int);
  if (written.float !== undefined) return Number(written.float);
  if (written.list) return written.list.map(value);
  if (written.dict) return new Map(written.dict.map(([k, v]) => [value(k), value(v)]));
  const { dtype, shape, base64 } = written.tensor;
  return { data: new ARRAYS[dtype](Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)).buffer), shape, dtype };
}

async function look(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { colorSpaceConversion: "none" });
  } catch (e) {
    throw new Error(`${file.name}: expected an image that this browser can read, got another file (${e.message})`);
  }
  URL.revokeObjectURL(element("shown").src);
  element("shown").src = URL.createObjectURL(file);
  show("shown");
  await pause();
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d", { willReadFrequently: true });
  canvas.drawImage(bitmap, 0, 0);
  const tensor = preprocess(canvas.getImageData(0, 0, bitmap.width, bitmap.height), about.preprocessing);
  const wanted = model.inputs(about.method)[0].dtype ?? "f32";
  const data = wanted === "f32" ? tensor.data : ARRAYS[wanted].from(tensor.data, wanted === "i64" ? (x) => BigInt(Math.trunc(x)) : undefined);
  await run([{ data, shape: tensor.shape, dtype: wanted }]);
}

async function run(inputs) {
  const once = () => model.runMethod(about.method, ...inputs);
  results(tensors(once()));
  show("latency");
  element("median").textContent = "…";
  await pause();
  const { median, least, most, runs } = await measure(once, (done) => (element("timing").textContent = `measuring: ${done} runs`));
  element("median").textContent = in_ms(median);
  element("timing").textContent =
    `median of ${runs} runs (${in_ms(least)} to ${in_ms(most)}), after warm-up; one thread, WebAssembly with SIMD, in this browser`;
  element("median").dataset.milliseconds = median;
}

async function measure(once, tell) {
  const timed = (runs) => {
    const start = performance.now();
    for (let i = 0; i < runs; ++i) once();
    return performance.now() - start;
  };
  let each = 1;
  for (const start = performance.now(); performance.now() - start < WARM_UP_MS; ) {
    while (timed(each) < SAMPLE_MS) each *= 2; // browsers round their clocks, to a millisecond at worst
    await pause();
  }
  const samples = [];
  for (const start = performance.now(); samples.length < FEWEST || (samples.length < MOST && performance.now() - start < MEASURE_MS); ) {
    samples.push(timed(each) / each);
    tell(samples.length * each);
    await pause();
  }
  samples.sort((a, b) => a - b);
  return { median: samples[samples.length >> 1], least: samples[0], most: samples.at(-1), runs: samples.length * each };
}

/** Every tensor in a result, with a name that says where it stands. */
function tensors(result, name = "") {
  if (result === null || typeof result !== "object") return [];
  if (ArrayBuffer.isView(result.data)) return [{ name: name || "output", ...result }];
  const parts = result instanceof Map ? [...result] : Object.entries(result);
  return parts.flatMap(([key, part]) => tensors(part, Array.isArray(result) ? `${name || "output"}[${key}]` : name ? `${name}.${key}` : `${key}`));
}

function results(found) {
  const last = (t) => t.shape.at(-1);
  const classes = found.find((t) => ["f32", "f64"].includes(t.dtype) && [1, 2].includes(t.shape.length) && t.data.length >= 2 && t.data.length === last(t));
  element("classes").replaceChildren();
  element("outputs").replaceChildren();
  show("results");
  if (classes && about.preprocessing !== null) return ranking(probabilities(classes.data));
  const row = (tag, cells) => {
    const line = document.createElement("tr");
    line.append(...cells.map((text) => Object.assign(document.createElement(tag), { textContent: text })));
    return line;
  };
  const table = document.createElement("table"), short = (x) => (Number.isInteger(x) ? `${x}` : x.toPrecision(4));
  table.append(row("th", ["output", "dtype", "shape", "least", "mean", "greatest"]));
  for (const t of found) table.append(row("td", [t.name, t.dtype, `[${t.shape.join(", ")}]`, ...statistics(t).map(short)]));
  element("outputs").append(table);
}

function statistics({ data, dtype }) {
  if (data.length === 0 || dtype === "f16" || dtype === "bf16") return []; // halves come as bits
  let least = Infinity, most = -Infinity, sum = 0;
  for (const x of data) {
    const number = Number(x);
    least = Math.min(least, number);
    most = Math.max(most, number);
    sum += number;
  }
  return [least, sum / data.length, most];
}

/** Softmax of logits; numbers that are already a distribution stay as they are (as `penlight run` has it). */
function probabilities(y) {
  const sum = y.reduce((a, b) => a + b, 0), most = y.reduce((a, b) => Math.max(a, b), -Infinity);
  if (about.scores === "probabilities" || (!about.scores && y.every((x) => x >= 0) && Math.abs(sum - 1) < 1e-3)) return Array.from(y);
  const e = Array.from(y, (x) => Math.exp(x - most)), total = e.reduce((a, b) => a + b, 0);
  return e.map((x) => x / total);
}

function ranking(p) {
  const best = p.map((x, i) => [x, i]).sort(([a, i], [b, j]) => b - a || i - j).slice(0, about.top);
  for (const [x, i] of best) {
    const line = document.createElement("li");
    line.style.setProperty("--part", `${100 * x}%`);
    line.append(...[about.labels[i] ?? `class ${i}`, `${(100 * x).toFixed(2)}%`].map((text) => Object.assign(document.createElement("span"), { textContent: text })));
    element("classes").append(line);
  }
}
