#include "runtime/op_name.h"

namespace nax {

const char* op_name_or_null(uint32_t id) {
  switch (id) {
#define NAX_X(name, number) \
  case number: return #name;
    NAX_OPS(NAX_X)
#undef NAX_X
    default: return nullptr;
  }
}

}  // namespace nax
