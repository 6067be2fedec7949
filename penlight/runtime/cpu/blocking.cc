// The processor and the blocking that follows, for callers.
#include "penlight/runtime/cpu/blocking.h"

#include "penlight/runtime/exec/kernel.h"

#if !defined(PEN_ASSUMED_PROCESSOR)

extern "C" pen_status pen_processor_describe(pen_processor* to, pen_error* error) {
  using namespace pen;
  if (!to) return report(error, PEN_ERROR_ARGUMENT, "processor", "room for it", "NULL");
  if (!is_struct_size(to->size))
    return report(error, PEN_ERROR_ARGUMENT, "processor", "its size in the first field", "another number", "Begin with PEN_PROCESSOR");
  PEN_TRY(check_processor(error));
  const Processor& p = processor();
  const Cache* c = p.caches;
  const size_t size = to->size;
  const pen_processor all = {size,
                             c[0].bytes,
                             c[1].bytes,
                             c[2].bytes,
                             c[0].sharers,
                             c[1].sharers,
                             c[2].sharers,
                             p.cores,
                             has_whole_vectors(),
                             p.source,
                             p.near_bytes,
                             part_of_k(p),
                             near_weights(p),
                             strip_bytes(p),
                             expanded_bytes(p),
                             expand_input_bytes(p),
                             turn_bytes(p)};
  memcpy(to, &all, size < sizeof all ? size : sizeof all);
  return PEN_OK;
}

#endif
