// node module.mjs MODULE: what it imports and exports, as JSON.
import { readFileSync } from "node:fs";

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const imports = WebAssembly.Module.imports(module).map((i) => `${i.module}.${i.name}`);
process.stdout.write(JSON.stringify({ imports, exports: WebAssembly.Module.exports(module).map((e) => e.name) }));
