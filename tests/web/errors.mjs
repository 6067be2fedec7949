// node errors.mjs MODULE MODEL: what is said of wrong calls, and what becomes of memory, as JSON. The model takes f32[1, 3, 96, 96].
import { readFileSync } from "node:fs";
import { Penlight, PenlightError } from "../../penlight/web/penlight.mjs";

const module = await WebAssembly.compile(readFileSync(process.argv[2])), pen = readFileSync(process.argv[3]);
const said = async (work) => {
  try {
    return `no error: ${await work()}`;
  } catch (e) {
    return e instanceof PenlightError ? `${e.status}: ${e.message}` : `another error: ${e}`;
  }
};
const model = await Penlight.load(module, pen), size = 3 * 96 * 96, image = new Float32Array(size);
const wrong = {
  few: () => model.run(),
  short: () => model.run(new Float32Array(5)),
  dtype: () => model.run({ data: new Int32Array(size), shape: [1, 3, 96, 96] }),
  named: () => model.run({ data: image, shape: [1, 3, 96, 96], dtype: "i64" }),
  shape: () => model.run({ data: image, shape: [1, 3, 48, 192] }),
  kind: () => model.run("a picture"),
  nothing: () => model.run(null),
  fraction: () => model.run({ data: image, shape: [0.5, 6, 96, 96] }),
  negative: () => model.run({ data: image, shape: [-1, -3, 96, 96] }),
  number: () => model.run({ data: image, shape: size }),
  method: () => model.runMethod("backward", image),
  file: () => Penlight.load(module, new Uint8Array(100)),
  cut: () => Penlight.load(module, pen.subarray(0, pen.length / 2)),
  verify: () => Penlight.load(module, Uint8Array.from(pen, (b, i) => (i === pen.length - 100 ? b ^ 1 : b)), { verify: true }),
  limits: () => Penlight.load(module, pen, { maxSteps: -1 }),
  memory: async () => (await Penlight.load(module, pen, { memoryLimit: 1000 })).run(image),
  address: () => Penlight.load("data:text/plain,none", pen),
};
const messages = {};
for (const [name, work] of Object.entries(wrong)) messages[name] = await said(work);
const steps = model.profile("forward", image);
const same = JSON.stringify(model.run(image)) === JSON.stringify(model.run({ data: image, shape: [1, 3, 96, 96] }));
// Memory: runs, failed ones too, take no more of it.
const once = async () => {
  model.run(image);
  await said(wrong.shape);
  await said(wrong.fraction);
};
for (let i = 0; i < 3; ++i) await once();
const sizes = new Set();
for (let i = 0; i < 100; ++i) {
  await once();
  sizes.add(model.memoryBytes);
}
model.close();
model.close();
messages.closed = await said(() => model.run(image));
process.stdout.write(JSON.stringify({ messages, steps, same, sizes: [...sizes] }));
