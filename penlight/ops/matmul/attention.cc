// attention: f32. Phase 0 packs keys (transposed) and values into panels, in blocks of keys, each distinct matrix once.
// In phase 1 a task takes a block of queries of one batch entry and goes over the blocks of keys: scores in scratch,
// running maximum and sum of each query (online softmax), results added up in scratch and divided at the end.
// For one query, as when words are asked for one at a time, packing would take longer than all else: there is one phase, and keys and
// values are multiplied where they lie. Scores then are added up in another order than those of several queries.
// Where each matrix is one task's alone (a block of queries for each batch entry: windows of an image), that task packs it, block by
// block, and finds it in its own first cache level.
//
// A query whose scores are all -inf gives 0, as in torch; NaN in a score gives NaN.
#include "penlight/ops/matmul/attention.h"

#include "penlight/runtime/exec/q8.h"

namespace pen {

// Panels of one block of keys start at multiples of 64 bytes; blocks lie one after another.
static PEN_INLINE int64_t packed_keys(int64_t keys, int64_t e) { return panel_count(keys) * 16 * e; }
static PEN_INLINE int64_t packed_values(int64_t keys, int64_t ev) { return panel_count(ev) * 16 * keys; }

// The mask's last dims may be missing: 0 are its rows, 1 its columns.
static PEN_INLINE int64_t mask_size(const Tensor& mask, int dim) { return mask.rank - 2 + dim >= 0 ? mask.dims[mask.rank - 2 + dim] : 1; }

PEN_SHAPE(attention) {
  static const char* const kShape[3] = {"a tensor [..., L, E]", "a tensor [..., S, E] with the E of q",
                                        "a tensor [..., S, Ev] with the S of k"};
  const bool bytes = kHasBytes && s.in(0).dtype == DType::u8;
  Shape out;
  for (int i = 0; i < 4; ++i) {
    if (!s.has(i)) continue;
    PEN_TRY(need_countable(s, i));
    const bool byte = bytes && i < 3;
    if (s.in(i).dtype != (byte ? DType::u8 : DType::f32))
      return s.fail(i, byte ? "a u8 tensor, as q is" : "an f32 tensor", "dtype code %d", static_cast<int>(s.in(i).dtype));
    if (s.in(i).rank < 2 && i < 3) return s.fail(i, kShape[i], "rank %d", s.in(i).rank);
    int lead = s.in(i).rank - 2;
    if (lead > 0 && broadcast(&out, s.in(i).dims, lead) >= 0) return s.fail(i, "leading dims equal to those of q, or 1", "others");
  }
  const Tensor &q = s.in(0), &k = s.in(1), &v = s.in(2);
  int64_t length = q.dims[q.rank - 2], keys = k.dims[k.rank - 2];
  if (k.dims[k.rank - 1] != q.dims[q.rank - 1]) return s.fail(1, kShape[1], "E = %lld", static_cast<long long>(k.dims[k.rank - 1]));
  if (v.dims[v.rank - 2] != keys) return s.fail(2, kShape[2], "S = %lld", static_cast<long long>(v.dims[v.rank - 2]));
  if (s.has(3)) {
    int64_t rows = mask_size(s.in(3), 0), columns = mask_size(s.in(3), 1);
    if ((rows != 1 && rows != length) || (columns != 1 && columns != keys))
      return s.fail(3, "a mask that can be broadcast to [..., L, S]", "[..., %lld, %lld]", static_cast<long long>(rows),
                    static_cast<long long>(columns));
  }
  if (out.rank + 2 > kMaxRank) return s.fail(-1, "a result of rank 8 at most", "rank %d", out.rank + 2);
  out.dims[out.rank++] = length;
  out.dims[out.rank++] = v.dims[v.rank - 1];
  return s.output(0, bytes ? s.declared_dtype(0) : DType::f32, out);
}

// What the kernel of bytes needs beside the other: sizes of one packed matrix, and scratch.
[[maybe_unused]] static PEN_SMALL Status bind_bytes(Bind& b, AttentionQ8* p) {
  for (int i = 1; i < 3; ++i) PEN_TRY(need_q8(b, i));
  const Quant &q = *b.in(0).quant, &k = *b.in(1).quant, &v = *b.in(2).quant;
  PEN_TRY(need_depth_q8(b, p->e));
  PEN_TRY(bind_type_q8(b, &p->result, &p->inverse));
  if (!p->result.real) p->result.zero = static_cast<int32_t>(b.declared_quant(0)->zero);
  p->sums.real = true;
  p->q_zero = static_cast<uint32_t>(q.zero);
  p->k_zero = static_cast<uint32_t>(k.zero - 128);
  p->v_zero = static_cast<uint32_t>(v.zero - 128);
  float* scales = reinterpret_cast<float*>(p + 1);
  const float of_scores = static_cast<float>(k.scale) * static_cast<float>(q.scale) * p->scale;
  for (int64_t i = 0; i < p->width; ++i) {
    scales[i] = of_scores;
    scales[p->width + i] = static_cast<float>(v.scale) / kScoreSteps;
  }
  p->padded_e = (p->e + 3) / 4 * 4;
  p->k_block = panel_count(p->block_keys) * 16 * (p->padded_e + 8);
  p->v_block = panel_count(p->ev) * 16 * ((p->block_keys + 3) / 4 * 4 + 8);
  p->k_size = p->key_blocks * p->k_block;
  p->v_size = p->key_blocks * p->v_block;
  p->bytes_pitch = (p->block_keys + 15) / 16 * 16 + 16;
  p->copy_pitch = p->e % 4 != 0 ? p->padded_e + 12 : 0;
  return PEN_OK;
}

PEN_BIND(attention) {
  for (int i = 0; i < 4; ++i)
    if (b.has(i)) PEN_TRY(b.need_plain(i));
  PEN_TRY(b.need(0, Need::rows));
  const Tensor &q = b.in(0), &k = b.in(1), &v = b.in(2);
  const bool bytes = kHasBytes && q.dtype == DType::u8;
  const int64_t s = k.dims[k.rank - 2], ev = v.dims[v.rank - 1];
  const int64_t key_blocks = (s + kKeyBlock - 1) / kKeyBlock;
  int64_t block_keys = key_blocks == 0 ? 0 : (s + key_blocks - 1) / key_blocks;
  if (key_blocks > 1) block_keys = (block_keys + kKeyUnit - 1) / kKeyUnit * kKeyUnit;
  const int64_t width = panel_count(block_keys > ev ? block_keys : ev) * 16;
  if (bytes && column_count_q8({1, width, width, false}) < 0)
    return b.fail(2, "values of at most 134217728 columns", "%lld", static_cast<long long>(ev));
  const size_t more = sizeof(AttentionQ8) + static_cast<size_t>(width) * 3 * sizeof(float);
  AttentionParams* p = static_cast<AttentionParams*>(b.params_bytes(bytes ? more : sizeof(AttentionParams)));
  if (!p) return PEN_ERROR_MEMORY;
  p->l = q.dims[q.rank - 2];
  p->e = q.dims[q.rank - 1];
  p->s = s;
  p->ev = ev;
  p->has_mask = b.has(3);
  if (p->has_mask) {
    // What is not broadcast must be contiguous along the keys.
    const Tensor& mask = b.in(3);
    p->mask_column = mask_size(mask, 1) != 1;
    if (p->mask_column) PEN_TRY(b.need(3, Need::rows));
    p->mask_row = mask_size(mask, 0) != 1 ? mask.strides[mask.rank - 2] : 0;
  }
  PEN_TRY(b.output_turned(0));
  PEN_TRY(b.need_out(0, Need::rows));
  const Tensor& y = b.out(0);
  if (is_empty(y)) return PEN_OK;
  Shape shape = shape_of(y);
  shape.rank -= 2;
  p->keys = packed_batch(shape, k, 2);
  p->values = packed_batch(shape, v, 2);
  p->batch.rank = shape.rank;
  p->batch.count = 1;
  for (int i = 0; i < shape.rank; ++i) {
    p->batch.dims[i] = shape.dims[i];
    p->batch.count *= shape.dims[i];
    p->batch.strides[i][0] = broadcast_stride(shape, i, q, q.rank - 2);
    p->batch.strides[i][1] = p->keys.number[i];
    p->batch.strides[i][2] = p->values.number[i];
    p->batch.strides[i][3] = p->has_mask && b.in(3).rank > 2 ? broadcast_stride(shape, i, b.in(3), b.in(3).rank - 2) : 0;
    p->batch.strides[i][4] = y.strides[i];
  }
  p->q_pitch = q.strides[q.rank - 2];
  p->out_pitch = y.strides[y.rank - 2];
  p->k_row = k.strides[k.rank - 2];
  p->k_column = k.strides[k.rank - 1];
  p->v_row = v.strides[v.rank - 2];
  p->v_column = v.strides[v.rank - 1];
  p->causal = b.flag("causal");
  p->scale = static_cast<float>(b.number("scale"));

  p->key_blocks = key_blocks;
  p->row_blocks = (p->l + kQueryRows - 1) / kQueryRows;
  p->block_keys = block_keys;
  p->block_rows = (p->l + p->row_blocks - 1) / p->row_blocks;
  p->k_size = p->key_blocks * packed_keys(p->block_keys, p->e);
  p->v_size = p->key_blocks * packed_values(p->block_keys, p->ev);
  AttentionQ8* of_bytes = bytes ? static_cast<AttentionQ8*>(p) : nullptr;
  if (of_bytes) {
    of_bytes->width = width;
    PEN_TRY(bind_bytes(b, of_bytes));
  }
  int64_t k_total, v_total, total;
  if (__builtin_mul_overflow(p->keys.source.count, p->k_size, &k_total) ||
      __builtin_mul_overflow(p->values.source.count, p->v_size, &v_total) || __builtin_add_overflow(k_total, v_total, &total) ||
      __builtin_mul_overflow(total, bytes ? 1 : 4, &total))
    return b.fail(1, "a size that can be packed", "overflow");
  p->direct = !bytes && p->l == 1 && p->k_column == 1 && p->v_column == 1;
  p->own = !bytes && !p->direct && p->row_blocks == 1 && p->keys.source.count == p->batch.count && p->values.source.count == p->batch.count;
  if (!p->direct && !p->own) PEN_TRY(b.shared(total));
  p->scores_pitch = p->block_keys + 16;  // not a power of two
  p->sums_pitch = panel_count(p->ev) * 16 + 16;
  const int64_t row_bytes = of_bytes ? of_bytes->bytes_pitch + of_bytes->copy_pitch : 0;
  const int64_t packed = p->own ? 64 + (packed_keys(p->block_keys, p->e) + packed_values(p->block_keys, p->ev)) * 4 : 0;
  PEN_TRY(b.scratch(p->block_rows * ((p->scores_pitch + p->sums_pitch + 2) * 4 + row_bytes) + packed));
  if (p->direct || p->own) {
    b.tasks(p->batch.count);
    return PEN_OK;
  }
  p->pack_count = (p->keys.source.count + p->values.source.count) * p->key_blocks;
  p->pack_tasks = task_count(p->pack_count, 16384 / ((p->e + p->ev) * (p->block_keys + 1) + 1) + 1);
  b.tasks(p->pack_tasks, p->batch.count * p->row_blocks);
  return PEN_OK;
}

namespace PEN_ISA {

// scores = q x keys, for n rows of keys where they lie. Each is summed up by lanes.
static PEN_OUTER void multiply_keys(const float* q, const float* keys, int64_t n, int64_t row, int64_t e, float* scores) {
  for (int64_t i = 0; i < n; ++i, keys += row) {
    V sum = zero();
    int64_t c = 0;
    for (; c + kLanes <= e; c += kLanes) sum = fma(load(q + c), load(keys + c), sum);
    if (c < e) sum = fma(load_partial(q + c, e - c), load_partial(keys + c, e - c), sum);
    scores[i] = reduce_add(sum);
  }
}

// sums = scores x values, or added to it: n rows of values where they lie. A chain in the order of the keys, as in gemm.h.
template <int kVectors>
static PEN_INLINE void add_value_columns(const float* scores, const float* values, int64_t n, int64_t row, float* sums, bool add) {
  V acc[kVectors];
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[j] = add ? zero() + load(sums + j * kLanes) : zero();
  for (int64_t i = 0; i < n; ++i, values += row) {
    const V x = set1(scores[i]);
    PEN_UNROLL for (int j = 0; j < kVectors; ++j) acc[j] = fma(x, load(values + j * kLanes), acc[j]);
  }
  PEN_UNROLL for (int j = 0; j < kVectors; ++j) store(sums + j * kLanes, acc[j]);
}
static PEN_OUTER void add_values(const float* scores, const float* values, int64_t n, int64_t row, int64_t ev, float* sums, bool add) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= ev; c += 4 * kLanes) add_value_columns<4>(scores, values + c, n, row, sums + c, add);
  for (; c + kLanes <= ev; c += kLanes) add_value_columns<1>(scores, values + c, n, row, sums + c, add);
  if (c == ev) return;
  V acc = add ? zero() + load_partial(sums + c, ev - c) : zero();
  for (int64_t i = 0; i < n; ++i) acc = fma(set1(scores[i]), load_partial(values + i * row + c, ev - c), acc);
  store_partial(sums + c, acc, ev - c);
}

// Some rows of keys, as columns; and of values.
static PEN_OUTER void pack_keys(const AttentionParams& p, const float* from, int64_t n, float* to) {
  for (int64_t j = 0; j < n; j += 16) pack_panel(from + j * p.k_row, p.e, n - j, p.k_column, p.k_row, to + j * p.e);
}
static PEN_OUTER void pack_values(const AttentionParams& p, const float* from, int64_t n, float* to) {
  for (int64_t j = 0; j < p.ev; j += 16) pack_panel(from + j * p.v_column, n, p.ev - j, p.v_row, p.v_column, to + j * n);
}

static PEN_INLINE void pack_keys_and_values(const Run& r, const AttentionParams& p) {
  float* shared = reinterpret_cast<float*>(r.shared);
  float* v_shared = shared + p.keys.source.count * p.k_size;
  for (int64_t task = r.begin; task < r.end; ++task) {
    Range range = part(p.pack_count, p.pack_tasks, task);
    for (int64_t i = range.begin; i < range.end; ++i) {
      int64_t matrix = i / p.key_blocks, block = i % p.key_blocks, at;
      Range keys = keys_of(p, block);
      int64_t n = keys.end - keys.begin;
      if (matrix < p.keys.source.count) {
        batch_offsets(p.keys.source, matrix, &at, 1);
        const float* from = r.in[1].as<float>() + at + keys.begin * p.k_row;
        float* to = shared + matrix * p.k_size + block * packed_keys(p.block_keys, p.e);
        pack_keys(p, from, n, to);
      } else {
        matrix -= p.keys.source.count;
        batch_offsets(p.values.source, matrix, &at, 1);
        const float* from = r.in[2].as<float>() + at + keys.begin * p.v_row;
        float* to = v_shared + matrix * p.v_size + block * packed_values(p.block_keys, p.ev);
        pack_values(p, from, n, to);
      }
    }
  }
}

// scores = 2**(scores * scale - top), or with kAfter 2**((scores - top) * scale); gives their sum. Not fused: top is one of the products,
// rounded, and must leave 0.
template <bool kAfter>
static PEN_INLINE float exponentials(float* scores, int64_t n, float scale, float top) {
  const V s = set1(scale), t = set1(top);
  auto raise = [&](V x) { return exp2_below_one(kAfter ? (x - t) * s : x * s - t); };
  V sum = zero();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    V a = raise(load(scores + i));
    store(scores + i, a);
    sum = sum + a;
  }
  if (i < n) {
    store_partial(scores + i, raise(load_partial(scores + i, n - i)), n - i);
    sum = sum + load_partial(scores + i, n - i);
  }
  return reduce_add(sum);
}

// The largest of the scores, NaN left out: exp finds it again.
static PEN_INLINE float largest(const float* scores, int64_t n) {
  V a = set1(-__builtin_inff()), b = a;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    a = max(load(scores + i), a);
    b = max(load(scores + i + kLanes), b);
  }
  if (i + kLanes <= n) a = max(load(scores + i), a);
  if (n >= kLanes) b = max(load(scores + n - kLanes), b);  // the rest, and some again
  float top = reduce_max(max(a, b));
  for (i = n < kLanes ? 0 : n; i < n; ++i) top = scores[i] > top ? scores[i] : top;
  return top;
}

static PEN_INLINE float exp2_of(float x) {
  float lanes[kLanes];
  store(lanes, exp2_below_one(set1(x)));
  return lanes[0];
}

}  // namespace PEN_ISA

PEN_KERNEL(attention, f32) {
  using namespace PEN_ISA;
  const AttentionParams& p = r.as<AttentionParams>();
  if (r.phase == 0 && !p.direct && !p.own) return pack_keys_and_values(r, p);
  const float* k_packed = reinterpret_cast<const float*>(r.shared);
  const float* v_packed = k_packed + p.keys.source.count * p.k_size;
  float* scores = reinterpret_cast<float*>(r.scratch);
  float* sums = scores + p.block_rows * p.scores_pitch;
  float* tops = sums + p.block_rows * p.sums_pitch;  // running maximum of each query
  float* totals = tops + p.block_rows;               // sum of exponentials relative to it
  float* own_keys = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(totals + p.block_rows) + 63) / 64 * 64);
  float* own_values = own_keys + packed_keys(p.block_keys, p.e);
  // Scores are counted in powers of two. Not with a mask: its lowest numbers, as of a query that sees nothing, would become infinite.
  const float scale = p.scale * kLog2E;
  for (int64_t task = r.begin; task < r.end; ++task) {
    int64_t at[5];
    batch_offsets(p.batch, task / p.row_blocks, at, 5);
    Range rows = part(p.l, p.row_blocks, task % p.row_blocks);
    int64_t m = rows.end - rows.begin;
    for (int64_t i = 0; i < m; ++i) {
      tops[i] = -__builtin_inff();
      totals[i] = 0;
    }
    const float *k_rows = nullptr, *v_rows = nullptr;
    if (p.direct || p.own) {
      int64_t own;
      batch_offsets(p.keys.source, at[1], &own, 1);
      k_rows = r.in[1].as<float>() + own;
      batch_offsets(p.values.source, at[2], &own, 1);
      v_rows = r.in[2].as<float>() + own;
    }
    int64_t started = 0;
    for (int64_t block = 0; block < p.key_blocks; ++block) {
      Range keys = keys_of(p, block);
      if (p.causal && keys.begin >= rows.end) break;  // no query here sees keys this late
      int64_t n = keys.end - keys.begin;
      PanelProduct qk = {};
      qk.a = r.in[0].as<float>() + at[0] + rows.begin * p.q_pitch;
      qk.rows = m;
      qk.a_pitch = p.q_pitch;
      qk.b = k_packed + at[1] * p.k_size + block * packed_keys(p.block_keys, p.e);
      qk.k = p.e;
      qk.c_pitch = p.scores_pitch;
      qk.n = qk.end = n;
      qk.c = scores;
      if (p.direct) {
        multiply_keys(qk.a, k_rows + keys.begin * p.k_row, n, p.k_row, p.e, scores);
      } else {
        if (p.own) {
          pack_keys(p, k_rows + keys.begin * p.k_row, n, own_keys);
          qk.b = own_keys;
        }
        panel_product(qk);
      }
      for (int64_t i = 0; i < m; ++i) {
        float* row = scores + i * p.scores_pitch;
        int64_t query = rows.begin + i, visible = n;
        if (p.causal && query + 1 - keys.begin < n) visible = query + 1 > keys.begin ? query + 1 - keys.begin : 0;
        const float* mask = nullptr;
        if (p.has_mask) mask = r.in[3].as<float>() + at[3] + query * p.mask_row + keys.begin * p.mask_column;
        // Scores that are all there is are scaled on their way to a power; the largest stays the largest, if the scale is positive.
        const bool plain = !mask && visible == n && p.scale > 0;
        float top = plain ? largest(row, n) * scale : finish_scores(row, n, visible, mask ? p.scale : scale, mask, p.mask_column);
        top = top > tops[i] ? top : tops[i];
        float base = top == -__builtin_inff() ? 0.0f : top;  // nothing visible yet: 2**-inf must be 0, not NaN
        float sum = mask ? exponentials<true>(row, n, kLog2E, base) : exponentials<false>(row, n, plain ? scale : 1.0f, base);
        float kept = exp2_of((tops[i] - base) * (mask ? kLog2E : 1.0f));
        totals[i] = totals[i] * kept + sum;
        tops[i] = top;
        if (started && kept != 1.0f) scale_row(sums + i * p.sums_pitch, sums + i * p.sums_pitch, p.ev, kept);
      }
      if (p.direct) {
        add_values(scores, v_rows + keys.begin * p.v_row, n, p.v_row, p.ev, sums, started);
        started = 1;
        continue;
      }
      PanelProduct pv = {};
      pv.a = scores;
      pv.rows = m;
      pv.a_pitch = p.scores_pitch;
      pv.b = v_packed + at[2] * p.v_size + block * packed_values(p.block_keys, p.ev);
      if (p.own) {
        pack_values(p, v_rows + keys.begin * p.v_row, n, own_values);
        pv.b = own_values;
      }
      pv.k = n;
      pv.n = pv.end = p.ev;
      pv.c = sums;
      pv.c_pitch = p.sums_pitch;
      pv.add = started;
      panel_product(pv);
      started = 1;
    }
    float* out = r.out[0].as<float>() + at[4] + rows.begin * p.out_pitch;
    for (int64_t i = 0; i < m; ++i) {
      if (totals[i] == 0.0f) {
        memset(out + i * p.out_pitch, 0, static_cast<size_t>(p.ev) * 4);
      } else {
        scale_row(sums + i * p.sums_pitch, out + i * p.out_pitch, p.ev, 1.0f / totals[i]);
      }
    }
  }
}

}  // namespace pen
