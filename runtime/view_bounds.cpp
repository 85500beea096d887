#include "runtime/view_bounds.h"

#include <string>

#include "device/base/dtype.h"

namespace nax {

Status check_view_bounds(const nax_operand& o, uint64_t buffer_bytes, bool written, int64_t* out_elements) {
  const auto element = static_cast<int64_t>(dtype_size(static_cast<DType>(o.dtype)));
  int64_t elements = 1, low = 0, high = 0;
  bool overflow = false, empty = false;
  for (int32_t d = 0; d < o.rank; ++d) {
    if (o.sizes[d] < 0)
      return invalid_argument("size " + std::to_string(o.sizes[d]) + " of dimension " + std::to_string(d) + " is negative");
    empty |= o.sizes[d] == 0;
    overflow |= __builtin_mul_overflow(elements, o.sizes[d], &elements);
    if (o.sizes[d] < 2) continue;
    if (written && o.strides[d] == 0)
      return invalid_argument("an output must not repeat elements (stride 0 in dimension " + std::to_string(d) + ")");
    int64_t extent;
    overflow |= __builtin_mul_overflow(o.sizes[d] - 1, o.strides[d], &extent);
    overflow |= __builtin_add_overflow(extent < 0 ? low : high, extent, extent < 0 ? &low : &high);
  }
  if (empty) {
    *out_elements = 0;
    return {};
  }
  int64_t first = 0, last = 0;
  overflow |= __builtin_mul_overflow(low, element, &first);
  overflow |= __builtin_add_overflow(first, o.offset_bytes, &first);
  overflow |= __builtin_add_overflow(high, int64_t{1}, &last);
  overflow |= __builtin_mul_overflow(last, element, &last);
  overflow |= __builtin_add_overflow(last, o.offset_bytes, &last);
  if (overflow || first < 0 || static_cast<uint64_t>(last) > buffer_bytes)
    return invalid_argument("the view reaches outside its buffer of " + std::to_string(buffer_bytes) + " bytes" +
                            (overflow ? std::string()
                                      : " (bytes " + std::to_string(first) + " to " + std::to_string(last) + ")"));
  *out_elements = elements;
  return {};
}

}  // namespace nax
