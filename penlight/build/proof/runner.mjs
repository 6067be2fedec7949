// runner.c for a WebAssembly module, in Node: node runner.mjs MODULE MODEL CALLS RESULTS. runner.c says what is in CALLS and RESULTS.
import { readFileSync, writeFileSync } from "node:fs";
import { instantiate } from "../../web/penlight.mjs";

const [module, file, callsFile, resultsFile] = process.argv.slice(2);
const m = await instantiate(readFileSync(module)), { c } = m;
const ELEMENT_BYTES = [4, 2, 8, 1, 1, 2, 4, 8, 1, 2]; // by dtype
const ERROR_MESSAGE = 4, VERIFY = 1, VALUES = ["none", "int", "int", "float", "text", "tensor", "items", "items", "dict", "items"];

const calls = readFileSync(callsFile), results = [];
let at = 0;
const u32 = () => calls.readUInt32LE((at += 4) - 4);
const bytes = (size) => calls.subarray(at, (at += size));
const put = (size, write) => {
  const made = Buffer.alloc(size);
  write(made);
  results.push(made);
};
const putU32 = (value) => put(4, (b) => b.writeUInt32LE(value));
const putMemory = (from, size) => results.push(Buffer.from(new Uint8Array(m.c.memory.buffer, from, size)));
const fail = (what, why) => {
  console.log(`${what}: ${why}`);
  process.exit(1);
};
// Structs and texts stay: this program is short.
const zeroed = (size) => {
  const place = m.take(size);
  new Uint8Array(c.memory.buffer, place, size).fill(0);
  return place;
};
const text = (words) => m.copy(new TextEncoder().encode(`${words}\0`));
const error = zeroed(2048), out = zeroed(8), options = zeroed(64);
m.options(options);
const pointer = (what, call) => (call() === 0 ? m.pointer(out) : fail(what, m.text(error + ERROR_MESSAGE)));

function putTensor(t) {
  const { data, shape } = m.tensor(t);
  putMemory(t + 4, 8); // dtype, rank
  put(8 * shape.length, (b) => shape.forEach((d, i) => b.writeBigInt64LE(BigInt(d), 8 * i)));
  results.push(Buffer.from(data.buffer, data.byteOffset, data.byteLength));
}

function givenTensor() {
  const t = zeroed(20 + 4 + 8 * 8), dims = t + 24, dtype = u32(), rank = u32();
  let count = 1;
  for (let d = 0; d < rank; ++d, at += 8) {
    m.view.setBigInt64(dims + 8 * d, calls.readBigInt64LE(at), true);
    count *= Number(calls.readBigInt64LE(at));
  }
  const data = m.copy(Uint8Array.from(bytes(count * ELEMENT_BYTES[dtype])));
  [data, dtype, rank, dims, 0].forEach((word, i) => m.view.setUint32(t + 4 * i, word, true));
  return t;
}

function runPlanned(model, method, name) {
  const session = pointer(name, () => c.pen_session_create(model, method, options, out, error));
  const check = (status) => status === 0 || fail(name, m.text(c.pen_session_error(session) + ERROR_MESSAGE));
  for (let i = 0, count = u32(); i < count; ++i) check(c.pen_session_set_input(session, i, givenTensor()));
  check(c.pen_session_run(session));
  const outputs = c.pen_model_output_count(model, method), t = zeroed(20);
  putU32(outputs);
  for (let i = 0; i < outputs; ++i) {
    check(c.pen_session_output(session, i, t));
    putTensor(t);
  }
  c.pen_session_destroy(session);
}

function putValue(value) {
  const kind = c.pen_value_kind(value);
  put(1, (b) => b.writeUInt8(kind));
  if (VALUES[kind] === "int") return put(8, (b) => b.writeBigInt64LE(c.pen_value_as_int(value)));
  if (VALUES[kind] === "float") return put(8, (b) => b.writeDoubleLE(c.pen_value_as_float(value)));
  if (VALUES[kind] === "text") {
    const from = c.pen_value_text(value, out), size = m.pointer(out);
    putU32(size);
    return putMemory(from, size);
  }
  if (VALUES[kind] === "tensor") {
    const t = zeroed(20), q = zeroed(16);
    c.pen_value_as_tensor(value, t);
    putTensor(t);
    const quantized = c.pen_value_quantization(value, q), count = quantized ? m.pointer(q + 4) : 0;
    put(4, (b) => b.writeInt32LE(quantized ? m.view.getInt32(q, true) : -2));
    putU32(count);
    return [q + 8, q + 12].forEach((place) => putMemory(m.pointer(place), 8 * count));
  }
  if (VALUES[kind] === "none") return undefined;
  const count = c.pen_value_count(value);
  putU32(count);
  for (let i = 0; i < count; ++i) {
    if (VALUES[kind] === "dict") given(c.pen_value_key(value, i));
    given(c.pen_value_item(value, i));
  }
}
function given(value) {
  putValue(value);
  c.pen_value_release(value);
}

function runBundle(model, method, name) {
  const bundle = zeroed(32);
  if (c.pen_model_bundle(model, u32(), bundle, error) !== 0) fail(name, m.text(error + ERROR_MESSAGE));
  const run = pointer(name, () => c.pen_module_create(model, options, out, error)), all = m.pointer(bundle + 8);
  const count = c.pen_value_count(all), args = zeroed(4 * count);
  for (let i = 0; i < count; ++i) m.view.setUint32(args + 4 * i, c.pen_value_item(all, i), true);
  if (c.pen_module_run(run, method, args, count, out) !== 0) fail(name, m.text(c.pen_module_error(run) + ERROR_MESSAGE));
  given(m.pointer(out));
  for (let i = 0; i < count; ++i) c.pen_value_release(m.pointer(args + 4 * i));
  [8, 12].forEach((place) => c.pen_value_release(m.pointer(bundle + place)));
  c.pen_module_destroy(run);
}

const pen = readFileSync(file), model = pointer("open", () => c.pen_model_open_memory(m.copy(pen, 64), pen.length, VERIFY, out, error));
while (at < calls.length) {
  const kind = bytes(1)[0], name = bytes(u32()).toString();
  (kind ? runBundle : runPlanned)(model, text(name), name);
}
c.pen_model_close(model);
writeFileSync(resultsFile, Buffer.concat(results));
console.log("base"); // the one instruction set there is
