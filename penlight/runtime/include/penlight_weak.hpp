// Names of the C interface that a library may lack, for bindings that go with any library: weak where the linker knows that, so that a
// program asks for them (`&pen_module_create`) when it runs. A library for planned models only has none of the VM's, one for the CPU none
// of the buffers'. PENLIGHT_HAS_VM and PENLIGHT_HAS_BUFFERS, as 0, leave them out: see penlight/library.hpp. To be included
// after penlight.h, which apps have under more than one name.
#ifndef PENLIGHT_WEAK_HPP_
#define PENLIGHT_WEAK_HPP_

#if defined(__ELF__)
#if !defined(PENLIGHT_HAS_VM) || PENLIGHT_HAS_VM
#pragma weak pen_module_create
#pragma weak pen_module_destroy
#pragma weak pen_module_run
#pragma weak pen_module_reset
#pragma weak pen_module_seed
#pragma weak pen_module_error
#pragma weak pen_module_state
#pragma weak pen_module_planned_part
#pragma weak pen_module_device_report
#pragma weak pen_model_function_count
#pragma weak pen_model_function_name
#pragma weak pen_model_function_schema
#pragma weak pen_model_function_default_count
#pragma weak pen_model_missing_operator
#pragma weak pen_model_bundle_count
#pragma weak pen_model_bundle
#pragma weak pen_value_none
#pragma weak pen_value_bool
#pragma weak pen_value_int
#pragma weak pen_value_float
#pragma weak pen_value_string
#pragma weak pen_value_tensor
#pragma weak pen_value_make_constant
#pragma weak pen_value_make_read_only
#pragma weak pen_value_is_constant
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
#pragma weak pen_operators_create
#pragma weak pen_operators_destroy
#pragma weak pen_operators_run
#pragma weak pen_operators_error
#pragma weak pen_operator_count
#pragma weak pen_operator_name
#endif
#if !defined(PENLIGHT_HAS_BUFFERS) || PENLIGHT_HAS_BUFFERS
#pragma weak pen_buffer_create
#pragma weak pen_buffer_destroy
#pragma weak pen_buffer_upload
#pragma weak pen_buffer_download
#pragma weak pen_buffer_tensor
#pragma weak pen_buffer_device_name
#pragma weak pen_session_takes_buffer
#pragma weak pen_session_set_input_buffer
#pragma weak pen_session_set_output_buffer
#endif
#endif

#endif  // PENLIGHT_WEAK_HPP_
