// node run.mjs MODULE MODEL STEPS: calls from stdin, [[method, [argument, …]], …], results to stdout; values as penlight/tools/serve.py
// writes them. What fails gives {"dict": [["error", message], …]}.
import { readFileSync } from "node:fs";
import { ARRAYS, Penlight } from "../../penlight/web/penlight.mjs";

function read(value) {
  if (value === null || typeof value !== "object") return value;
  if (value.int !== undefined) return BigInt(value.int);
  if (value.float !== undefined) return Number(value.float);
  if (value.list) return value.list.map(read);
  if (value.dict) return new Map(value.dict.map(([k, v]) => [read(k), read(v)]));
  const { dtype, shape, base64 } = value.tensor, bytes = Uint8Array.from(Buffer.from(base64, "base64"));
  return { data: new ARRAYS[dtype](bytes.buffer), shape, dtype };
}
function written(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return { list: value.map(written) };
  if (value instanceof Map) return { dict: [...value].map(([k, v]) => [written(k), written(v)]) };
  if (!ArrayBuffer.isView(value.data)) return { dict: Object.entries(value).map(([k, v]) => [k, written(v)]) };
  const { data, shape, dtype } = value;
  return { tensor: { dtype, shape, base64: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64") } };
}

const [module, file, steps] = process.argv.slice(2);
const model = await Penlight.load(readFileSync(module), readFileSync(file), { maxSteps: Number(steps) });
const results = JSON.parse(readFileSync(0, "utf8")).map(([method, inputs]) => {
  try {
    return written(model.runMethod(method, ...inputs.map(read)));
  } catch (e) {
    return { dict: [["error", e.message], ["status", e.status ?? e.name]] };
  }
});
model.close();
process.stdout.write(JSON.stringify(results));
