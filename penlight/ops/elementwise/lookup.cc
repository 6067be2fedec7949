// lookup: quantized bytes through a table of 256, in rows as long as memory allows.
#include "penlight/ops/elementwise/rows_q8.h"
#include "penlight/runtime/simd/byte_table.h"

namespace pen {

PEN_SHAPE(lookup) {
  PEN_TRY(need_q8_output(s));
  const Tensor& table = s.in(1);
  if (table.dtype != DType::u8 || table.quant || table.rank != 1 || table.dims[0] != 256)
    return s.fail(1, "a table of 256 numbers of u8, not quantized", "%lld of %s, rank %d", static_cast<long long>(table.numel()),
                  kDTypeNames[static_cast<int>(table.dtype)], table.rank);
  return s.output(0, DType::u8, shape_of(s.in(0)));
}

PEN_BIND(lookup) {
  PEN_TRY(b.need_plain(0));
  PEN_TRY(b.need(1, Need::dense));
  PEN_TRY(b.output(0));
  b.params<ByteRows<1>>()->lay(b);
  return PEN_OK;
}

PEN_KERNEL(lookup, q8) {
  using namespace PEN_ISA;
  const ByteRows<1>& p = r.as<ByteRows<1>>();
  const ByteTable table(r.in[1].as<uint8_t>());
  const int64_t step = p.in[0][0];
  for_byte_rows(r, p, [&](int64_t out, const int64_t* in, int64_t n, int64_t) {
    uint8_t* y = r.out[0].as<uint8_t>() + out;
    const uint8_t* x = r.in[0].as<uint8_t>() + in[0];
    uint8_t buffer[kGatheredBytes];
    for (int64_t i = 0, count; i < n; i += count) {
      count = step == 1 || n - i < kGatheredBytes ? n - i : kGatheredBytes;
      table.look_up(step == 1 ? x + i : gather_bytes(buffer, x + i * step, step, count), y + i, count);
    }
  });
}

}  // namespace pen
