// Runs .pen models in browsers and in Node, over penlight.wasm (build/wasm.py makes it; `penlight serve` brings both). Typed arrays
// go in and come out; errors are the runtime's own words. One thread, and one model to a module's memory, which closing frees.
//
//   import { Penlight } from "./penlight.mjs";
//   const model = await Penlight.load("penlight.wasm", await (await fetch("mobilenet_v2.pen")).arrayBuffer());
//   const [scores] = model.run({ data: pixels, shape: [1, 3, 224, 224] });   // scores.data: Float32Array, scores.shape, scores.dtype
//   model.close();

// dtype -> the array that holds it, by the number it has in the C interface. f16 and bf16 are given as their bits.
const DTYPES = ["f32", "f16", "f64", "i8", "u8", "i16", "i32", "i64", "bool", "bf16"];
export const ARRAYS = {
  f32: Float32Array, f16: Uint16Array, f64: Float64Array, i8: Int8Array, u8: Uint8Array, i16: Int16Array, i32: Int32Array,
  i64: BigInt64Array, bool: Uint8Array, bf16: Uint16Array,
};
const STATUS = ["ok", "io", "format", "version", "kernel", "argument", "input", "shape", "memory", "data", "checksum", "raised", "limit"];
// Sizes and places of the C interface's structs, in bytes, pointers being 4.
const ERROR = { size: 1476, message: 4, op: 772, tensor: 836, expected: 900, got: 1060, source: 1220 };
const TENSOR_SIZE = 20, INFO_SIZE = 208, OPTIONS_SIZE = 32, STEP_SIZE = 32;
const KINDS = ["none", "bool", "int", "float", "string", "tensor", "list", "tuple", "dict", "object"];
const OK = 0, FREE = -1n, UNBOUNDED = 2n ** 63n - 1n, NANOSECONDS = 1e6; // in a millisecond

/** What the runtime refuses or fails at. `status` is its kind; op, tensor, expected, got, source are parts of the message. */
export class PenlightError extends Error {
  constructor(message, parts = {}) {
    super(message);
    this.name = "PenlightError";
    Object.assign(this, { status: "argument", op: "", tensor: "", expected: "", got: "", source: "" }, parts);
  }
}

// Calls into a module's memory. Views are made anew for each access: the memory moves when it grows. Addresses come as signed numbers: past
// 2 GB, >>> 0 makes them what they are.
class Memory {
  constructor(exports) {
    this.c = exports;
  }
  get view() {
    return new DataView(this.c.memory.buffer);
  }
  take(size, alignment = 16) {
    const at = this.c.aligned_alloc(alignment, Math.ceil(Math.max(size, 1) / alignment) * alignment);
    if (at === 0) throw new PenlightError(`memory: expected ${size} bytes more, got none`, { status: "memory" });
    return at >>> 0;
  }
  /** Memory for the length of a call. */
  /** Options of a session or a module, which begin alike: their size, the device, one thread, memory; of a module, steps follow. */
  options(at, { memoryLimit = 0, maxSteps = 0 } = {}, isModule = false) {
    this.view.setUint32(at, OPTIONS_SIZE, true);
    this.view.setInt32(at + 8, 1, true);
    this.view.setBigUint64(at + 16, BigInt(memoryLimit), true);
    if (isModule) this.view.setBigInt64(at + 24, BigInt(maxSteps), true);
  }
  with(size, use) {
    const at = this.take(size);
    try {
      new Uint8Array(this.c.memory.buffer, at, size).fill(0);
      return use(at);
    } finally {
      this.c.free(at);
    }
  }
  copy(bytes, alignment) {
    const at = this.take(bytes.byteLength, alignment);
    new Uint8Array(this.c.memory.buffer, at, bytes.byteLength).set(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    return at;
  }
  pointer(at) {
    return this.view.getUint32(at, true);
  }
  text(address, length = undefined) {
    const at = address >>> 0;
    if (at === 0) return null;
    const all = new Uint8Array(this.c.memory.buffer);
    return new TextDecoder().decode(all.slice(at, length === undefined ? all.indexOf(0, at) : at + length));
  }
  withText(text, use) {
    const bytes = new TextEncoder().encode(`${text}\0`);
    return this.with(bytes.length, (at) => {
      new Uint8Array(this.c.memory.buffer).set(bytes, at);
      return use(at, bytes.length - 1);
    });
  }
  error(address) {
    const at = address >>> 0;
    const parts = { status: STATUS[this.view.getInt32(at, true)] ?? "unknown" };
    for (const part of ["op", "tensor", "expected", "got", "source"]) parts[part] = this.text(at + ERROR[part]);
    return new PenlightError(this.text(at + ERROR.message), parts);
  }

  /** A pen_tensor over a copy of the data, both freed after `use`; `keep`: the data is not, where use succeeds, which gets its address too. */
  withTensor({ data, shape, dtype }, use, keep = false) {
    const at = this.copy(data);
    let kept = false;
    try {
      const made = this.with(TENSOR_SIZE + 4 + 8 * shape.length, (t) => {
        const { view } = this, dims = t + TENSOR_SIZE + 4;
        [at, DTYPES.indexOf(dtype), shape.length, dims, 0].forEach((word, i) => view.setUint32(t + 4 * i, word, true));
        shape.forEach((d, i) => view.setBigInt64(dims + 8 * i, BigInt(d), true));
        return use(t, at);
      });
      kept = keep;
      return made;
    } finally {
      if (!kept) this.c.free(at);
    }
  }
  /** A copy of what a pen_tensor tells of, row-major. */
  tensor(t) {
    const { view } = this;
    const [at, code, rank, dims, strides] = [0, 1, 2, 3, 4].map((i) => view.getUint32(t + 4 * i, true));
    const read = (from) => Array.from({ length: rank }, (_, i) => Number(view.getBigInt64(from + 8 * i, true)));
    const shape = read(dims), dtype = DTYPES[code], count = shape.reduce((a, b) => a * b, 1);
    const steps = strides === 0 ? null : read(strides), data = room(dtype, count);
    let next = 1;
    const dense = steps === null || count === 0 || shape.every((_, i) => {
      const d = rank - 1 - i, fits = shape[d] === 1 || steps[d] === next;
      next *= shape[d];
      return fits;
    });
    if (dense) {
      if (count > 0) data.set(new ARRAYS[dtype](this.c.memory.buffer, at, count));
      return { data, shape, dtype };
    }
    const span = 1 + shape.reduce((sum, n, d) => sum + (n - 1) * steps[d], 0), from = new ARRAYS[dtype](this.c.memory.buffer, at, span);
    for (let i = 0; i < count; ++i) {
      let place = 0, rest = i;
      for (let d = rank - 1; d >= 0; --d) {
        place += (rest % shape[d]) * steps[d];
        rest = Math.floor(rest / shape[d]);
      }
      data[i] = from[place];
    }
    return { data, shape, dtype };
  }
}

/** A model in memory. */
export class Penlight {
  /**
   * wasm: a URL, a Response, bytes, or a compiled WebAssembly.Module. pen: the bytes of a .pen file. For files of unknown origin, memoryLimit: bytes of
   * intermediate values; maxSteps: of interpreted code in one run (instructions, and elements that operators go through). 0: no limit.
   */
  static async load(wasm, pen, { verify = false, memoryLimit = 0, maxSteps = 0 } = {}) {
    for (const [name, limit] of Object.entries({ memoryLimit, maxSteps }))
      if (!Number.isSafeInteger(limit) || limit < 0) throw new PenlightError(`${name}: expected 0 (no limit) or more, got ${limit}`);
    const memory = await instantiate(wasm);
    const bytes = ArrayBuffer.isView(pen) ? pen : new Uint8Array(pen);
    return new Penlight(memory, memory.copy(bytes, 64), bytes.byteLength, verify, { memoryLimit, maxSteps });
  }

  #memory;
  #bytes;
  #limits;
  #model = 0;
  #module = 0;
  #sessions = new Map();
  #functions = new Map();

  constructor(memory, bytes, size, verify, limits) {
    this.#memory = memory;
    this.#bytes = bytes;
    this.#limits = limits;
    try {
      this.#model = this.#open((out, error) => memory.c.pen_model_open_memory(bytes, size, verify ? 1 : 0, out, error));
      this.#findFunctions();
    } catch (e) {
      this.close();
      throw e;
    }
  }

  /** Frees all of its memory; nothing of it may be called afterwards. Arrays that it gave are the caller's. */
  close() {
    if (this.#memory === null) return;
    const { c } = this.#memory;
    for (const session of this.#sessions.values()) c.pen_session_destroy(session);
    if (this.#module !== 0) c.pen_module_destroy(this.#module);
    c.pen_model_close(this.#model);
    c.free(this.#bytes);
    this.#memory = null;
  }

  /** Name, labels, preprocessing: what was given when the file was made. */
  get metadata() {
    return fromFile(this.#m.text(this.#m.c.pen_model_metadata(this.#model)));
  }
  /** What it holds of the device's memory: the file, plans, values. It grows with need, and goes with the model. */
  get memoryBytes() {
    return this.#m.c.memory.buffer.byteLength;
  }
  /** Names of methods, interpreted ones included. */
  get methods() {
    const { c } = this.#m, count = c.pen_model_method_count(this.#model);
    const planned = Array.from({ length: count }, (_, i) => this.#m.text(c.pen_model_method_name(this.#model, i)));
    return [...planned.filter((name) => !name.startsWith("~")), ...this.#functions.keys()]; // ~: parts of interpreted methods
  }
  /** What a method takes: [{name, dtype, shape, min, max}], null for sizes that are free; of interpreted methods [{name, type}]. */
  inputs(method = "forward") {
    return this.#functions.get(method)?.arguments ?? this.#ports(method, "input");
  }
  outputs(method = "forward") {
    return this.#functions.get(method)?.returns ?? this.#ports(method, "output");
  }

  /** Runs `forward`. */
  run(...inputs) {
    return this.runMethod("forward", ...inputs);
  }
  /** Planned methods take a tensor for each of `inputs(method)` and give an array of tensors {data, shape, dtype}, one for each of
   *  `outputs(method)`. Interpreted ones take and give values: tensors, numbers, bigints, strings, booleans, null, arrays, Maps. */
  runMethod(method, ...inputs) {
    if (this.#functions.has(method)) return this.#interpret(method, inputs);
    const session = this.#session(method), { c } = this.#m;
    const ports = this.inputs(method);
    if (inputs.length !== ports.length) {
      const takes = ports.map((p) => `${p.name}: ${p.dtype}[${p.shape.map((d) => d ?? "?").join(", ")}]`).join(", ");
      throw new PenlightError(`${method} takes ${ports.length} inputs (${takes}); got ${inputs.length}`);
    }
    const check = (status) => {
      if (status !== OK) throw this.#m.error(c.pen_session_error(session));
    };
    const given = [];
    try {
      inputs.forEach((input, i) =>
        this.#m.withTensor(asTensor(input, ports[i]), (t, at) => {
          check(c.pen_session_set_input(session, i, t));
          given.push(at);
        }, true),
      );
      check(c.pen_session_run(session));
      return this.outputs(method).map((_, i) =>
        this.#m.with(TENSOR_SIZE, (t) => {
          check(c.pen_session_output(session, i, t));
          return this.#m.tensor(t);
        }),
      );
    } finally {
      given.forEach((at) => c.free(at));
    }
  }

  /** Milliseconds that each kernel of a planned method takes in one run: [{key, output, source, milliseconds}]. */
  profile(method, ...inputs) {
    const session = this.#session(method), { c } = this.#m;
    this.runMethod(method, ...inputs);
    c.pen_session_set_profiling(session, 1);
    try {
      this.runMethod(method, ...inputs);
      return Array.from({ length: c.pen_session_step_count(session) }, (_, i) =>
        this.#m.with(STEP_SIZE, (at) => {
          c.pen_session_step(session, i, at);
          const [key, output, source] = [0, 4, 8].map((place) => this.#m.text(this.#m.pointer(at + place)));
          return { key, output, source, milliseconds: Number(this.#m.view.getBigUint64(at + 16, true)) / NANOSECONDS };
        }),
      );
    } finally {
      c.pen_session_set_profiling(session, 0);
    }
  }

  get #m() {
    if (this.#memory === null) throw new PenlightError("this model was closed");
    return this.#memory;
  }
  // Calls that fill in a pointer and, if they fail, a pen_error.
  #open(call) {
    const m = this.#m;
    return m.with(4, (out) =>
      m.with(ERROR.size, (error) => {
        if (call(out, error) !== OK) throw m.error(error);
        return m.pointer(out);
      }),
    );
  }
  #session(method) {
    if (!this.#sessions.has(method)) {
      const create = (name, options) => {
        this.#m.options(options, this.#limits, false);
        return this.#open((out, error) => this.#m.c.pen_session_create(this.#model, name, options, out, error));
      };
      this.#sessions.set(method, this.#m.withText(method, (name) => this.#m.with(OPTIONS_SIZE, (options) => create(name, options))));
    }
    return this.#sessions.get(method);
  }
  #ports(method, side) {
    const m = this.#m, { c } = m;
    const [count, info] = side === "input" ? [c.pen_model_input_count, c.pen_model_input_info] : [c.pen_model_output_count, c.pen_model_output_info];
    return m.withText(method, (name) => {
      const known = count(this.#model, name);
      if (known < 0) throw new PenlightError(`method: expected one of ${this.methods.join(", ")}, got ${method}`);
      return Array.from({ length: known }, (_, i) =>
        m.with(INFO_SIZE, (at) => {
          info(this.#model, name, i, at);
          const { view } = m, rank = view.getInt32(at + 8, true);
          const dims = (from) => Array.from({ length: rank }, (_, d) => view.getBigInt64(at + from + 8 * d, true));
          const number = (none) => (d) => (d === none ? null : Number(d));
          const shape = dims(16).map(number(FREE)), min = dims(80).map(number(FREE)), max = dims(144).map(number(UNBOUNDED));
          return { name: m.text(m.pointer(at)), dtype: DTYPES[view.getInt32(at + 4, true)], shape, min, max };
        }),
      );
    });
  }

  // --- interpreted methods; a module for planned models has none of these functions ---
  #findFunctions() {
    const m = this.#m, { c } = m;
    if (!c.pen_model_function_count) return;
    for (let i = 0; i < c.pen_model_function_count(this.#model); ++i) {
      const schema = fromFile(m.text(c.pen_model_function_schema(this.#model, i)), (read) => Array.isArray(read?.arguments));
      this.#functions.set(m.text(c.pen_model_function_name(this.#model, i)), { ...schema, arguments: schema.arguments.slice(1) }); // self
    }
  }
  #interpret(method, inputs) {
    const m = this.#m, { c } = m, parameters = this.inputs(method), values = [];
    if (this.#module === 0) {
      this.#module = m.with(OPTIONS_SIZE, (options) => {
        m.options(options, this.#limits, true);
        return this.#open((out, error) => c.pen_module_create(this.#model, options, out, error));
      });
    }
    try {
      inputs.forEach((input, i) => values.push(this.#value(input, parameters[i]?.type ?? "")));
      const run = (name, at, out) => {
        values.forEach((value, i) => m.view.setUint32(at + 4 * i, value, true));
        if (c.pen_module_run(this.#module, name, at, values.length, out) !== OK) throw m.error(c.pen_module_error(this.#module));
        return this.#given(m.pointer(out));
      };
      return m.withText(method, (name) => m.with(4 * values.length, (at) => m.with(4, (out) => run(name, at, out))));
    } finally {
      values.forEach((value) => c.pen_value_release(value));
    }
  }
  // A value of the VM: a number is an int where the parameter's type says so.
  #value(input, type) {
    const m = this.#m, { c } = m;
    const made = (value) => {
      if (value === 0) throw new PenlightError("memory: expected room for a value, got none", { status: "memory" });
      return value;
    };
    const together = (items, make) => {
      const parts = [];
      try {
        items.forEach((item) => parts.push(this.#value(item, type)));
        return m.with(4 * parts.length, (at) => {
          parts.forEach((part, i) => m.view.setUint32(at + 4 * i, part, true));
          return made(make(at, parts.length));
        });
      } finally {
        parts.forEach((part) => c.pen_value_release(part));
      }
    };
    if (input === null || input === undefined) return made(c.pen_value_none());
    if (typeof input === "boolean") return made(c.pen_value_bool(input ? 1 : 0));
    if (typeof input === "bigint" || (typeof input === "number" && /\bint\b/.test(type))) return made(c.pen_value_int(asInt(input)));
    if (typeof input === "number") return made(c.pen_value_float(input));
    if (typeof input === "string") return m.withText(input, (at, length) => made(c.pen_value_string(at, length)));
    if (Array.isArray(input)) return together(input, /^Tuple/.test(type) ? c.pen_value_tuple : c.pen_value_list);
    if (input instanceof Map) {
      const count = input.size;
      if (![...input.keys()].every((key) => ["number", "bigint", "boolean", "string"].includes(typeof key)))
        throw new PenlightError("a Map: expected numbers, booleans and strings as keys, got others", { status: "input" });
      return together([...input.keys(), ...input.values()], (at) => c.pen_value_dict(at, at + 4 * count, count));
    }
    return m.withTensor(asTensor(input), (t) => made(c.pen_value_owned_tensor(t)), true);
  }
  // What a value is in JavaScript; gives the value back. It may contain itself, and shared parts are written out: depth and number have limits.
  #given(value, depth = 0, left = { parts: 2 ** 22 }) {
    const m = this.#m, { c } = m;
    if (value === 0) throw new PenlightError("memory: expected room for a part of the result, got none", { status: "memory" });
    try {
      if (depth > 200 || --left.parts < 0)
        throw new PenlightError("a result: expected at most 200 levels and 4194304 parts, got more, or one that contains itself", { status: "limit" });
      const kind = KINDS[c.pen_value_kind(value)], count = c.pen_value_count(value);
      const items = () => Array.from({ length: count }, (_, i) => this.#given(c.pen_value_item(value, i), depth + 1, left));
      if (kind === "none") return null;
      if (kind === "bool") return c.pen_value_as_int(value) !== 0n;
      if (kind === "int") {
        const whole = c.pen_value_as_int(value);
        return Number.isSafeInteger(Number(whole)) ? Number(whole) : whole;
      }
      if (kind === "float") return c.pen_value_as_float(value);
      if (kind === "string") {
        return m.with(4, (size) => {
          const at = c.pen_value_text(value, size);
          return m.text(at, m.pointer(size));
        });
      }
      if (kind === "tensor") {
        return m.with(TENSOR_SIZE, (t) => {
          c.pen_value_as_tensor(value, t);
          return m.tensor(t);
        });
      }
      if (kind === "dict") {
        const keys = Array.from({ length: count }, (_, i) => this.#given(c.pen_value_key(value, i), depth + 1, left));
        return new Map(items().map((item, i) => [keys[i], item]));
      }
      const parts = items(), field = (i) => m.text(c.pen_value_field(value, i));
      return m.text(c.pen_value_type(value)) === "" ? parts : Object.fromEntries(parts.map((part, i) => [field(i), part]));
    } finally {
      c.pen_value_release(value);
    }
  }
}

/** A module's functions and memory, which Penlight is made of: for programs that call the C interface themselves. */
export async function instantiate(wasm) {
  let memory = null;
  const clock_time_get = (id, precision, at) => {
    memory.view.setBigUint64(at, BigInt(Math.round(performance.now() * NANOSECONDS)), true);
    return OK;
  };
  const instance = await WebAssembly.instantiate(await compile(wasm), { wasi_snapshot_preview1: { clock_time_get } });
  memory = new Memory(instance.exports);
  instance.exports._initialize();
  return memory;
}

async function compile(wasm) {
  if (wasm instanceof WebAssembly.Module) return wasm;
  if (wasm instanceof ArrayBuffer || ArrayBuffer.isView(wasm)) return WebAssembly.compile(wasm);
  const response = await (wasm instanceof Response ? wasm : fetch(wasm));
  if (!response.ok) throw new PenlightError(`${response.url}: expected a WebAssembly module, got ${response.status} ${response.statusText}`, { status: "io" });
  return WebAssembly.compile(await response.arrayBuffer()); // not compileStreaming: that wants a content type that few servers give
}

// A JSON text of a file, which may be damaged.
function fromFile(text, fits = () => true) {
  let read;
  try {
    read = JSON.parse(text);
  } catch (e) {
    if (!(e instanceof SyntaxError)) throw e;
  }
  if (read === undefined || !fits(read))
    throw new PenlightError(`damaged .pen file: expected JSON that tells of the model, got ${text.slice(0, 60)}`, { status: "format" });
  return read;
}

// For a result, which may be expanded: larger than the module's memory.
function room(dtype, count) {
  try {
    return new ARRAYS[dtype](count);
  } catch {
    throw new PenlightError(`memory: expected room for a result of ${count} numbers, got none`, { status: "memory" });
  }
}

// What an int of the VM holds; WebAssembly would take the lowest 64 bits of any other.
function asInt(input) {
  const whole = typeof input === "bigint" || Number.isInteger(input) ? BigInt(input) : null;
  if (whole === null || BigInt.asIntN(64, whole) !== whole)
    throw new PenlightError(`an int: expected a whole number of 64 bits, got ${input}`, { status: "input" });
  return whole;
}

// A typed array, or {data, shape, dtype}, as {data, shape, dtype}. What is left out is what the port says, if that is fixed.
function asTensor(input, port = null) {
  const { data, shape, dtype } = ArrayBuffer.isView(input) ? { data: input } : input ?? {};
  const name = port ? `input ${port.name}` : "tensor";
  if (!ArrayBuffer.isView(data)) throw new PenlightError(`${name}: expected a typed array, or {data, shape}, got ${input === null ? null : typeof input}`, { status: "input" });
  const own = Object.keys(ARRAYS).filter((d) => data instanceof ARRAYS[d]);
  const chosen = dtype ?? (port && own.includes(port.dtype) ? port.dtype : own[0]);
  if (!own.includes(chosen)) throw new PenlightError(`${name}: expected an array of ${chosen}, got ${data.constructor.name}`, { status: "input" });
  const dims = shape ?? (port && !port.shape.includes(null) ? port.shape : port ? null : [data.length]);
  if (dims === null) throw new PenlightError(`${name}: its size is free: expected {data, shape}, got an array without`, { status: "input" });
  if (!Array.isArray(dims) || dims.length > 8 || !dims.every((d) => Number.isSafeInteger(d) && d >= 0))
    throw new PenlightError(`${name}: expected a shape of at most 8 whole numbers of 0 or more, got ${dims}`, { status: "input" });
  const count = dims.reduce((a, b) => a * b, 1);
  if (count !== data.length)
    throw new PenlightError(`${name}: expected ${count} numbers for shape [${dims.join(", ")}], got ${data.length}`, { status: "input" });
  return { data, shape: dims, dtype: chosen };
}
