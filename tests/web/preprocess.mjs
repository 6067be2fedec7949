// node preprocess.mjs: {width, height, data (RGBA, base64), steps} from stdin, one JSON object a line; the tensor of each to stdout.
import { readFileSync } from "node:fs";
import { preprocess } from "../../penlight/web/preprocess.mjs";

const lines = readFileSync(0, "utf8").trim().split("\n").map((line) => {
  const { width, height, data, steps } = JSON.parse(line);
  const made = preprocess({ width, height, data: new Uint8ClampedArray(Buffer.from(data, "base64")) }, steps);
  return JSON.stringify({ shape: made.shape, data: Buffer.from(made.data.buffer).toString("base64") });
});
process.stdout.write(lines.join("\n"));
