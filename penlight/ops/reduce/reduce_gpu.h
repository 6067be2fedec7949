// Reductions on a GPU: what their rules share.
#pragma once
#include "penlight/ops/reduce/reduce.h"
#include "penlight/runtime/gpu/rows.h"

namespace pen {

enum : uint32_t { kSum, kProduct, kMaximum, kMinimum };  // as reduce.comp and reduce_whole.comp count
enum : uint32_t { kAsItIs, kNanIsZero, kMagnitude, kSquare, kNotZero };

// Input 0 in rows, by the attributes of all reductions; the output has a place. rows->across.n is 0 where there is nothing to do.
static inline PEN_SMALL Status reduced_rows(Gpu& b, GpuRows* rows) {
  bool reduced[kMaxRank] = {};
  int64_t out[kMaxRank];
  PEN_TRY(mark_dims(b, reduced));
  PEN_TRY(b.output(0));
  rows->across.n = 0;
  if (is_empty(b.out(0))) return PEN_OK;
  reduce_out_strides(b.in(0), b.out(0), reduced, b.flag("keepdim"), out);
  return rows_of(b, reduced, out, rows);
}

static inline PEN_SMALL Status reduce_on_gpu(Gpu& b, uint32_t kind, uint32_t map, uint32_t finish) {
  GpuRows rows;
  PEN_TRY(reduced_rows(b, &rows));
  shader::Reduce s;
  fill_rows(rows, &s.push);
  s.KIND = kind, s.MAP = map, s.FINISH = finish, s.COLUMNS = rows.columns();
  return b.dispatch(s, {b.reads(0), b.writes(0)}, rows.groups());
}

}  // namespace pen
