// Which parts of the C interface the library has. One that `penlight build` made for models without VM code has no pen_module_* and
// pen_value_*, one for the CPU no pen_buffer_*. penlight_library.h, which lies beside libraries that are linked statically, says it; where
// a linker knows weak names, they are asked for when the program runs.
#ifndef PENLIGHT_LIBRARY_HPP_
#define PENLIGHT_LIBRARY_HPP_

#include "penlight_spec.hpp"  // and with it penlight.h

#if __has_include("penlight_library.h")
#include "penlight_library.h"
#endif
#ifndef PENLIGHT_HAS_VM
#define PENLIGHT_HAS_VM 1
#endif
#ifndef PENLIGHT_HAS_BUFFERS
#define PENLIGHT_HAS_BUFFERS 1
#endif

#include "penlight_weak.hpp"

namespace penlight {

inline bool has_vm() {
#if PENLIGHT_HAS_VM
  return &pen_module_create != nullptr;
#else
  return false;
#endif
}
inline bool has_buffers() {
#if PENLIGHT_HAS_BUFFERS
  return &pen_buffer_create != nullptr;
#else
  return false;
#endif
}

}  // namespace penlight

#endif  // PENLIGHT_LIBRARY_HPP_
