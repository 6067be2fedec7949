# find_package(penlight) for C and C++ programs, of an installed package or a checkout:
#   cmake -S . -B build -Dpenlight_DIR=$(penlight --cmake-dir)
# Gives penlight::penlight (penlight.h, penlight.hpp, the library) and penlight::torch (the same with PyTorch's names: <torch/script.h>).
# PENLIGHT_LIBRARY names another library, such as a small one that `penlight build --target host` made.
get_filename_component(_pen_bindings "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
get_filename_component(_pen_home "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)  # the package, or a checkout around it
if(NOT EXISTS "${_pen_home}/runtime/include/penlight.h")
  set(_pen_home "${_pen_home}/penlight")
endif()
find_library(PENLIGHT_LIBRARY NAMES penlight NO_DEFAULT_PATH
             PATHS "${_pen_home}/lib" "${_pen_home}/../build/release" "${_pen_home}/../build/penlight/host")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(penlight REQUIRED_VARS PENLIGHT_LIBRARY REASON_FAILURE_MESSAGE
  "no libpenlight in ${_pen_home}/lib: an installed package has one. In a checkout, `penlight build --all --target host` makes one: pass -DPENLIGHT_LIBRARY=<it>")

if(penlight_FOUND AND NOT TARGET penlight::penlight)
  find_package(Threads REQUIRED)
  add_library(penlight::penlight UNKNOWN IMPORTED)
  set_target_properties(penlight::penlight PROPERTIES
    IMPORTED_LOCATION "${PENLIGHT_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${_pen_home}/runtime/include;${_pen_bindings}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};$<$<NOT:$<PLATFORM_ID:Windows>>:m>")
  add_library(penlight::torch INTERFACE IMPORTED)
  set_target_properties(penlight::torch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_pen_bindings}/compat"
    INTERFACE_LINK_LIBRARIES penlight::penlight)
endif()
unset(_pen_bindings)
unset(_pen_home)
