// Runs a C program that was compiled for WASI: node wasi.mjs PROGRAM ARGUMENT…; it sees the whole file system.
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const args = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args, preopens: { "/": "/" }, returnOnExit: true });
const { instance } = await WebAssembly.instantiate(await readFile(args[0]), wasi.getImportObject());
process.exit(wasi.start(instance));
