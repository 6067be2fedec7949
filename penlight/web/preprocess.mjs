// preprocess.py in the browser: an image becomes the tensor that a file's `preprocessing` metadata asks for, bit for bit as Pillow and
// numpy make it. (A canvas scales too, but otherwise in every browser, and without averaging: the model would see another picture.)

const PRECISION = 22; // bits behind the point of Pillow's weights, for 8-bit pixels
const sinc = (x) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));
// name -> how far it reaches, and its weight at a distance
const FILTERS = {
  box: [0.5, (x) => (x > -0.5 && x <= 0.5 ? 1 : 0)],
  bilinear: [1, (x) => Math.max(1 - Math.abs(x), 0)],
  hamming: [1, (x) => (Math.abs(x) >= 1 ? 0 : sinc(x) * (Math.fround(0.54) + Math.fround(0.46) * Math.cos(Math.PI * x)))],
  bicubic: [2, (x) => cubic(Math.abs(x), -0.5)],
  lanczos: [3, (x) => (x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0)],
};
function cubic(x, a) {
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/** {width, height, data: RGBA} as the f32 tensor {data, shape} that `steps` describes: see preprocess.py for the fields. */
export function preprocess(image, steps) {
  const scaled = resized(inColor(image, steps.color), steps);
  const { width, height, channels, data } = cropped(scaled, steps.crop);
  const per = (values, c) => Math.fround(values.length === 1 ? values[0] : values[c]);
  const out = new Float32Array(data.length), scale = Math.fround(steps.scale), pixels = width * height, first = steps.layout === "NCHW";
  for (let c = 0; c < channels; ++c) {
    const mean = per(steps.mean, c), std = per(steps.std, c), from = steps.color === "BGR" ? channels - 1 - c : c;
    for (let i = 0; i < pixels; ++i) {
      const y = Math.fround(Math.fround(data[i * channels + from] * scale) - mean) / std; // rounded as it is stored
      out[first ? c * pixels + i : i * channels + c] = y;
    }
  }
  return { data: out, shape: first ? [1, channels, height, width] : [1, height, width, channels] };
}

function inColor({ width, height, data }, color) {
  const channels = color === "L" ? 1 : 3, out = new Uint8Array(width * height * channels);
  for (let i = 0; i < width * height; ++i) {
    const [r, g, b] = [data[4 * i], data[4 * i + 1], data[4 * i + 2]];
    if (channels === 1) out[i] = (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
    else out.set([r, g, b], 3 * i);
  }
  return { width, height, channels, data: out };
}

function resized(image, { resize, interpolation }) {
  if (resize === undefined || resize === null) return image;
  let [height, width] = Array.isArray(resize) ? resize : [resize, resize];
  if (!Array.isArray(resize)) {
    const other = Math.trunc((resize * Math.max(image.width, image.height)) / Math.min(image.width, image.height));
    if (image.width <= image.height) height = other;
    else width = other;
  }
  if (interpolation === "nearest") return nearest(image, width, height);
  const [reach, weight] = FILTERS[interpolation];
  const across = (picture) => alongX(picture, width, reach, weight), down = (picture) => alongY(picture, height, reach, weight);
  // The order shows in the last bit. Pillow 13 has this rule; older ones always go across first, which is the same but for extreme shapes.
  const tall = height < image.height && image.height - height > 2 * (image.width - width);
  return tall ? across(down(image)) : down(across(image));
}

function nearest(image, width, height) {
  const { channels, data } = image, out = new Uint8Array(width * height * channels);
  const places = (size, wanted) => {
    const found = new Int32Array(wanted), step = size / wanted;
    for (let i = 0, at = step * 0.5; i < wanted; ++i, at += step) found[i] = at; // counted up, as Pillow does: a product rounds otherwise
    return found;
  };
  const xs = places(image.width, width), ys = places(image.height, height);
  for (let y = 0; y < height; ++y) {
    for (let x = 0; x < width; ++x) {
      const at = (ys[y] * image.width + xs[x]) * channels;
      for (let c = 0; c < channels; ++c) out[(y * width + x) * channels + c] = data[at + c];
    }
  }
  return { width, height, channels, data: out };
}

// For each place of the result: the first pixel it is made of, and the weights of that and the following ones.
function weights(size, wanted, reach, weight) {
  const scale = size / wanted, wide = Math.max(scale, 1), support = reach * wide;
  return Array.from({ length: wanted }, (_, i) => {
    const center = (i + 0.5) * scale;
    const start = Math.max(Math.trunc(center - support + 0.5), 0), end = Math.min(Math.trunc(center + support + 0.5), size);
    const each = Array.from({ length: end - start }, (_, k) => weight((k + start - center + 0.5) * (1 / wide)));
    const sum = each.reduce((a, b) => a + b, 0);
    return [start, Int32Array.from(each, (w) => Math.trunc((w < 0 ? -0.5 : 0.5) + (sum === 0 ? w : w / sum) * (1 << PRECISION)))];
  });
}

const rounded = (sum) => Math.min(Math.max(sum >> PRECISION, 0), 255);

function alongX(image, wanted, reach, weight) {
  const { width, height, channels, data } = image;
  if (width === wanted) return image;
  const out = new Uint8Array(wanted * height * channels), places = weights(width, wanted, reach, weight);
  for (let y = 0; y < height; ++y) {
    for (let x = 0; x < wanted; ++x) {
      const [start, each] = places[x], from = (y * width + start) * channels;
      for (let c = 0; c < channels; ++c) {
        let sum = 1 << (PRECISION - 1);
        for (let k = 0; k < each.length; ++k) sum += data[from + k * channels + c] * each[k];
        out[(y * wanted + x) * channels + c] = rounded(sum);
      }
    }
  }
  return { width: wanted, height, channels, data: out };
}

function alongY(image, wanted, reach, weight) {
  const { width, height, channels, data } = image;
  if (height === wanted) return image;
  const line = width * channels, out = new Uint8Array(wanted * line);
  weights(height, wanted, reach, weight).forEach(([start, each], y) => {
    for (let x = 0; x < line; ++x) {
      let sum = 1 << (PRECISION - 1);
      for (let k = 0; k < each.length; ++k) sum += data[(start + k) * line + x] * each[k];
      out[y * line + x] = rounded(sum);
    }
  });
  return { width, height: wanted, channels, data: out };
}

// The middle; where the image is smaller, black around it.
function cropped(image, crop) {
  if (crop === undefined || crop === null) return image;
  const [height, width] = Array.isArray(crop) ? crop : [crop, crop], { channels } = image;
  const half = (n) => Math.floor(n / 2) + (n % 2 === 1 ? Math.floor(n / 2) % 2 : 0); // to even, as Python rounds
  const before = (have, want) => (have < want ? -Math.floor((want - have) / 2) : half(have - want));
  const left = before(image.width, width), top = before(image.height, height), out = new Uint8Array(width * height * channels);
  for (let y = 0; y < height; ++y) {
    if (y + top < 0 || y + top >= image.height) continue;
    const from = Math.max(left, 0), to = Math.min(left + width, image.width), row = (y + top) * image.width;
    out.set(image.data.subarray((row + from) * channels, (row + to) * channels), (y * width + from - left) * channels);
  }
  return { width, height, channels, data: out };
}
