/* The instruction sets that the library holds and this processor has, best first, a line each. */
#include <stdio.h>

#include "penlight.h"

int main(void) {
  for (int i = 0; pen_isa_name(i); ++i) printf("%s\n", pen_isa_name(i));
  return 0;
}
