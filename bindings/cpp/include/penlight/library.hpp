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
#if defined(__ELF__)
#if PENLIGHT_HAS_VM
#pragma weak pen_module_create
#pragma weak pen_module_destroy
#pragma weak pen_module_run
#pragma weak pen_module_reset
#pragma weak pen_module_seed
#pragma weak pen_module_error
#pragma weak pen_model_function_count
#pragma weak pen_model_function_name
#pragma weak pen_value_none
#pragma weak pen_value_bool
#pragma weak pen_value_int
#pragma weak pen_value_float
#pragma weak pen_value_string
#pragma weak pen_value_tensor
#pragma weak pen_value_quantize
#pragma weak pen_value_quantization
#pragma weak pen_value_list
#pragma weak pen_value_tuple
#pragma weak pen_value_dict
#pragma weak pen_value_release
#pragma weak pen_value_kind
#pragma weak pen_value_as_int
#pragma weak pen_value_as_float
#pragma weak pen_value_text
#pragma weak pen_value_as_tensor
#pragma weak pen_value_count
#pragma weak pen_value_item
#pragma weak pen_value_key
#pragma weak pen_value_type
#pragma weak pen_value_field
#endif
#if PENLIGHT_HAS_BUFFERS
#pragma weak pen_buffer_create
#pragma weak pen_buffer_destroy
#pragma weak pen_buffer_upload
#pragma weak pen_buffer_download
#pragma weak pen_buffer_tensor
#pragma weak pen_session_takes_buffer
#pragma weak pen_session_set_input_buffer
#pragma weak pen_session_set_output_buffer
#endif
#endif

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
