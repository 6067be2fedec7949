// How many hold an object. Atomic, since a caller may give back a result on one thread while the module runs on another; all else about an
// object belongs to the thread that runs. Memory of zeros is a count of 0.
#pragma once
#include "penlight/runtime/base/platform.h"

namespace pen {

class Count {
 public:
  Count& operator=(int32_t n) {
    __atomic_store_n(&n_, n, __ATOMIC_RELAXED);
    return *this;
  }
  void operator++() { __atomic_add_fetch(&n_, 1, __ATOMIC_RELAXED); }
  // What is left. Whoever sees 0 sees all that others did to the object before.
  int32_t operator--() { return __atomic_sub_fetch(&n_, 1, __ATOMIC_ACQ_REL); }
  operator int32_t() const { return __atomic_load_n(&n_, __ATOMIC_RELAXED); }

 private:
  int32_t n_;
};

}  // namespace pen
