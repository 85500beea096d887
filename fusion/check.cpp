// check_op: what is wrong with a recorded op, before a window is touched; shapes and dtypes for C
// callers.
#include <algorithm>
#include <string>

#include "fusion/graph.h"
#include "fusion/op_table.h"
#include "fusion/plan.h"

namespace nax {
namespace {

std::string shape_text(const View& v) {
  std::string s = "[";
  for (int i = 0; i < v.rank; ++i) s += (i ? ", " : "") + std::to_string(v.sizes[i]);
  return s + "]";
}

uint8_t compute_class(DType t) {
  if (is_floating(t)) return kComputeFloat;
  if (is_integral(t)) return kComputeInt;
  return t == DType::kBool ? kComputeBool : kComputeStorage;
}

std::string class_names(uint8_t mask) {
  std::string s;
  const auto add = [&](uint8_t bit, const char* names) {
    if (mask & bit) s += (s.empty() ? "" : ", ") + std::string(names);
  };
  add(kComputeFloat, "f16, bf16, f32, f64");
  add(kComputeInt, "u8, i8, i16, i32, i64");
  add(kComputeBool, "bool");
  return s;
}

// ATen's promotion of two tensor dtypes.
DType promote(DType a, DType b) {
  if (a == b || b == DType::kInvalid) return a;
  if (a == DType::kInvalid) return b;
  if (is_floating(a) && is_floating(b)) {
    if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
    return DType::kF32;  // also f16 with bf16
  }
  if (is_floating(a)) return a;
  if (is_floating(b)) return b;
  if (a == DType::kBool) return b;
  if (b == DType::kBool) return a;
  const auto size = [](DType t) { return dtype_size(t); };
  const bool ua = a == DType::kU8, ub = b == DType::kU8;
  if (ua != ub) {
    const DType other = ua ? b : a;
    return size(other) > 1 ? other : DType::kI16;
  }
  return size(a) >= size(b) ? a : b;
}

class Checker {
 public:
  Checker(Window& w, WindowOp& op, const OpInfo& info, bool infer)
      : w_(w), op_(op), info_(info), infer_(infer) {}

  Status run() {
    NAX_RETURN_IF_ERROR(counts());
    NAX_RETURN_IF_ERROR(compute());
    NAX_RETURN_IF_ERROR(dtypes());
    return shapes();
  }

 private:
  WindowOperand& in(int i) { return w_.operands[op_.first_operand + i]; }
  WindowOperand& out(int i) { return w_.operands[op_.first_operand + op_.input_count + i]; }
  View& x(int i) { return in(i).view; }
  View& y(int i) { return out(i).view; }
  int64_t attr(int i) const { return w_.attrs[op_.first_attr + i]; }
  bool tensor(int i) { return in(i).cls == OperandClass::kTensor; }
  Status fail(const std::string& m) const {
    return invalid_argument(std::string(info_.name) + ": " + m);
  }

  Status counts() {
    if (op_.input_count < info_.min_inputs || op_.input_count > info_.max_inputs)
      return fail("takes " + std::to_string(info_.min_inputs) + " inputs, found " +
                  std::to_string(op_.input_count));
    if (op_.output_count < info_.min_outputs || op_.output_count > info_.max_outputs)
      return fail("has " + std::to_string(info_.min_outputs) +
                  (info_.max_outputs > info_.min_outputs
                       ? " to " + std::to_string(info_.max_outputs)
                       : std::string()) +
                  " outputs, found " + std::to_string(op_.output_count));
    if (op_.attr_count < info_.min_attrs || op_.attr_count > info_.max_attrs)
      return fail("takes " + std::to_string(info_.min_attrs) + " attributes, found " +
                  std::to_string(op_.attr_count));
    for (int i = 0; i < op_.input_count; ++i) {
      const OperandClass cls = in(i).cls;
      if (cls == OperandClass::kAbsent && !(info_.optional >> i & 1))
        return fail("input " + std::to_string(i) + " must be present");
      if (cls == OperandClass::kScalar && (info_.tensors >> i & 1))
        return fail("input " + std::to_string(i) + " must be a tensor, found a scalar");
    }
    for (int i = 0; i < op_.output_count; ++i)
      if (out(i).cls != OperandClass::kTensor && !infer_)
        return fail("output " + std::to_string(i) + " must be a tensor");
    return {};
  }

  DType derive_compute() {
    DType t = DType::kInvalid;
    int first = 0, last = op_.input_count;
    if (op_.id == OpId::k_where) first = 1;
    if (op_.id == OpId::k_masked_fill || info_.kind == OpKind::kIndex || info_.kind == OpKind::kRow)
      last = 1;
    bool float_scalar = false, scalar = false;
    for (int i = first; i < last; ++i) {
      if (tensor(i)) t = promote(t, x(i).dtype);
      if (in(i).cls == OperandClass::kScalar) {
        scalar = true;
        float_scalar |= in(i).scalar.kind == ScalarValue::Kind::kF64;
      }
    }
    if (info_.shape == ShapeRule::kGiven && out(0).cls == OperandClass::kTensor) return y(0).dtype;
    if (t == DType::kInvalid) t = float_scalar || !scalar ? DType::kF32 : DType::kI64;
    if (float_scalar && !is_floating(t)) t = DType::kF32;
    if (info_.kind == OpKind::kReduction) {
      if ((op_.id == OpId::k_sum || op_.id == OpId::k_prod) && !is_floating(t)) return DType::kI64;
      if (op_.id == OpId::k_any || op_.id == OpId::k_all) return DType::kBool;
    }
    if (op_.id == OpId::k_cumsum && !is_floating(t)) return DType::kI64;
    if (info_.compute == kComputeFloat && !is_floating(t)) return DType::kF32;
    return t;
  }

  Status compute() {
    if (op_.compute == DType::kInvalid) op_.compute = derive_compute();
    const uint8_t cls = compute_class(op_.compute);
    if (!(info_.compute & cls))
      return fail("computes in " + class_names(info_.compute) + ", found " +
                  std::string(dtype_name(op_.compute)));
    if (!info_.expand)
      return unimplemented(std::string(info_.name) + ": has no engine lowering; lowered are " +
                           std::string(covered_op_names()));
    return {};
  }

  Status dtypes() {
    const DType result = info_.dtype == DTypeRule::kBool  ? DType::kBool
                         : info_.dtype == DTypeRule::kI64 ? DType::kI64
                                                          : op_.compute;
    if (infer_)
      for (int i = 0; i < op_.output_count; ++i) {
        if (info_.shape == ShapeRule::kGiven && out(i).cls == OperandClass::kTensor &&
            y(i).dtype != DType::kInvalid)
          continue;
        out(i).cls = OperandClass::kTensor;
        y(i).dtype = result;
      }
    if (info_.compute & kComputeStorage && compute_class(op_.compute) == kComputeStorage) {
      // Bytes move as they are.
      if (x(0).dtype != op_.compute || y(0).dtype != op_.compute)
        return unimplemented(std::string(info_.name) + ": no engine conversion from " +
                             std::string(dtype_name(x(0).dtype)) + " to " +
                             std::string(dtype_name(y(0).dtype)) +
                             "; allowed are equal dtypes, or " + class_names(kComputeAny));
      if (dtype_size(op_.compute) > 8 || dtype_size(op_.compute) == 0)
        return unimplemented(std::string(info_.name) + ": no engine copy of " +
                             std::string(dtype_name(op_.compute)) +
                             "; allowed are elements of up to 8 bytes");
      return {};
    }
    for (int i = 0; i < op_.input_count + op_.output_count; ++i) {
      const WindowOperand& o = in(i);
      if (o.cls == OperandClass::kTensor && !is_computable(o.view.dtype))
        return unimplemented(std::string(info_.name) + ": operand " + std::to_string(i) +
                             " has dtype " + std::string(dtype_name(o.view.dtype)) +
                             "; engines compute on " + class_names(kComputeAny));
    }
    if (op_.id == OpId::k_where || op_.id == OpId::k_masked_fill) {
      const int mask = op_.id == OpId::k_where ? 0 : 1;
      if (x(mask).dtype != DType::kBool && x(mask).dtype != DType::kU8)
        return fail("the condition must be bool or u8, found " +
                    std::string(dtype_name(x(mask).dtype)));
    }
    if (info_.kind == OpKind::kIndex && x(1).dtype != DType::kI64 && x(1).dtype != DType::kI32)
      return fail("the index must be i64 or i32, found " + std::string(dtype_name(x(1).dtype)));
    return {};
  }

  // ---- Shapes ----

  void set_contiguous(View& v) {
    int64_t step = 1;
    for (int i = v.rank - 1; i >= 0; --i)
      v.strides[i] = step, step *= std::max<int64_t>(v.sizes[i], 1);
  }

  // The output's shape: fills it, or compares.
  Status expect(int output, const View& want) {
    View& v = y(output);
    if (infer_) {
      v.rank = want.rank;
      v.sizes = want.sizes;
      set_contiguous(v);
      return {};
    }
    if (v.rank == want.rank &&
        std::equal(v.sizes.begin(), v.sizes.begin() + v.rank, want.sizes.begin()))
      return {};
    return fail("output " + std::to_string(output) + " has shape " + shape_text(v) +
                ", it must be " + shape_text(want));
  }

  Status writable(const View& v) {
    for (int i = 0; i < v.rank; ++i)
      if (v.strides[i] == 0 && v.sizes[i] > 1)
        return fail("an output must not have several elements at one place: shape " +
                    shape_text(v) + ", stride 0 in dimension " + std::to_string(i));
    return {};
  }

  // `v` broadcasts to `to`.
  Status broadcasts(const View& v, const View& to, int input) {
    bool ok = v.rank <= to.rank;
    for (int i = 0; ok && i < v.rank; ++i) {
      const int64_t size = v.sizes[v.rank - 1 - i];
      ok = size == 1 || size == to.sizes[to.rank - 1 - i];
    }
    if (ok) return {};
    return fail("input " + std::to_string(input) + " has shape " + shape_text(v) +
                ", which does not broadcast to " + shape_text(to));
  }

  Status broadcast() {
    View common;
    for (int i = 0; i < op_.input_count; ++i) {
      if (!tensor(i)) continue;
      const View& v = x(i);
      const int rank = std::max<int>(common.rank, v.rank);
      View next;
      next.rank = static_cast<uint8_t>(rank);
      for (int d = 0; d < rank; ++d) {
        const int64_t a = d < common.rank ? common.sizes[common.rank - 1 - d] : 1,
                      b = d < v.rank ? v.sizes[v.rank - 1 - d] : 1;
        if (a != b && a != 1 && b != 1)
          return fail("input " + std::to_string(i) + " has shape " + shape_text(v) +
                      ", which does not broadcast with " + shape_text(common));
        next.sizes[rank - 1 - d] = a == 1 ? b : a;
      }
      common = next;
    }
    if (infer_ || op_.id != OpId::k_copy) return expect(0, common);
    return broadcasts(common, y(0), 0);  // copy_ broadcasts its source
  }

  Status dim_in_range(int64_t dim, int rank) {
    if (dim >= 0 && dim < std::max(rank, 1)) return {};
    return fail("dimension " + std::to_string(dim) + " is out of range for rank " +
                std::to_string(rank) + "; allowed are 0 to " +
                std::to_string(std::max(rank, 1) - 1));
  }

  Status reduce() {
    const View& v = x(0);
    const int64_t mask = attr(0), keep = attr(1);
    if (mask < 0 || mask >= (int64_t{1} << v.rank))
      return fail("the mask of reduced dimensions is " + std::to_string(mask) +
                  ", it must be below 2^rank = " + std::to_string(int64_t{1} << v.rank));
    if (keep != 0 && keep != 1)
      return fail("keepdim is " + std::to_string(keep) + ", it must be 0 or 1");
    View want;
    bool none = false;
    for (int d = 0; d < v.rank; ++d) {
      if (mask >> d & 1) {
        none |= v.sizes[d] == 0;
        if (keep) want.sizes[want.rank++] = 1;
      } else {
        want.sizes[want.rank++] = v.sizes[d];
      }
    }
    const bool no_identity = op_.id == OpId::k_amax || op_.id == OpId::k_amin ||
                             op_.id == OpId::k_argmax || op_.id == OpId::k_argmin;
    if (none && no_identity)
      return fail("cannot reduce over no elements: the input has shape " + shape_text(v));
    return expect(0, want);
  }

  Status norm() {
    const View& v = x(0);
    const int64_t dims = attr(0);
    if (dims < 1 || dims > v.rank)
      return fail("the number of normalized dimensions is " + std::to_string(dims) +
                  ", allowed are 1 to " + std::to_string(v.rank));
    for (int i = 1; i < op_.input_count; ++i) {
      if (!tensor(i) || (info_.tensors >> i & 1)) continue;
      View want;
      want.rank = static_cast<uint8_t>(dims);
      for (int d = 0; d < dims; ++d) want.sizes[d] = v.sizes[v.rank - dims + d];
      if (x(i).rank != want.rank ||
          !std::equal(want.sizes.begin(), want.sizes.begin() + dims, x(i).sizes.begin()))
        return fail("input " + std::to_string(i) + " has shape " + shape_text(x(i)) +
                    ", it must be " + shape_text(want));
    }
    NAX_RETURN_IF_ERROR(expect(0, v));
    View rows = v;
    for (int d = 0; d < dims; ++d) rows.sizes[v.rank - 1 - d] = 1;
    for (int i = 1; i < op_.output_count; ++i) NAX_RETURN_IF_ERROR(expect(i, rows));
    return {};
  }

  Status norm_backward() {
    const View& v = x(0);
    const int64_t dims = attr(0);
    if (dims < 1 || dims > v.rank)
      return fail("the number of normalized dimensions is " + std::to_string(dims) +
                  ", allowed are 1 to " + std::to_string(v.rank));
    View rows = v;
    for (int d = 0; d < dims; ++d) rows.sizes[v.rank - 1 - d] = 1;
    NAX_RETURN_IF_ERROR(same_shape(1, v));
    NAX_RETURN_IF_ERROR(same_shape(2, rows));
    NAX_RETURN_IF_ERROR(same_shape(3, rows));
    if (tensor(4)) NAX_RETURN_IF_ERROR(broadcasts(x(4), v, 4));
    return expect(0, v);
  }

  Status same_shape(int input, const View& want) {
    const View& v = x(input);
    if (v.rank == want.rank &&
        std::equal(v.sizes.begin(), v.sizes.begin() + v.rank, want.sizes.begin()))
      return {};
    return fail("input " + std::to_string(input) + " has shape " + shape_text(v) + ", it must be " +
                shape_text(want));
  }

  Status matmul(int a, bool batched) {
    const int rank = batched ? 3 : 2;
    const View &l = x(a), &r = x(a + 1);
    const std::string found = ": found " + shape_text(l) + " and " + shape_text(r);
    if (l.rank != rank || r.rank != rank)
      return fail((batched ? std::string("needs [b, m, k] and [b, k, n]")
                           : std::string("needs [m, k] and [k, n]")) +
                  found);
    if (l.sizes[rank - 1] != r.sizes[rank - 2]) return fail("inner dimensions differ" + found);
    if (batched && l.sizes[0] != r.sizes[0]) return fail("batch dimensions differ" + found);
    if (l.dtype != r.dtype)
      return fail("operands must have one dtype, found " + std::string(dtype_name(l.dtype)) +
                  " and " + std::string(dtype_name(r.dtype)));
    if (l.dtype != op_.compute)
      return fail("computes in the operands' dtype " + std::string(dtype_name(l.dtype)) +
                  ", found " + std::string(dtype_name(op_.compute)));
    View want;
    want.rank = static_cast<uint8_t>(rank);
    want.sizes = l.sizes;
    want.sizes[rank - 1] = r.sizes[rank - 1];
    if (a == 1) NAX_RETURN_IF_ERROR(broadcasts(x(0), want, 0));
    return expect(0, want);
  }

  Status index() {
    const View& v = x(0);
    const View& idx = x(1);
    NAX_RETURN_IF_ERROR(dim_in_range(attr(0), v.rank));
    const auto dim = static_cast<int>(attr(0));
    if (v.rank == 0)
      return unimplemented(std::string(info_.name) +
                           ": a 0-dimensional input has no lowering; allowed are ranks 1 to 6");
    if (info_.shape == ShapeRule::kIndexSelect || info_.shape == ShapeRule::kIndexAdd) {
      if (idx.rank != 1)
        return fail("the index must have one dimension, found shape " + shape_text(idx));
      View want = v;
      want.sizes[dim] = idx.sizes[0];
      if (info_.shape == ShapeRule::kIndexSelect) return expect(0, want);
      NAX_RETURN_IF_ERROR(same_shape(2, want));
    } else {
      if (idx.rank != v.rank)
        return fail("index and input must have one rank, found " + shape_text(idx) + " and " +
                    shape_text(v));
      const View& source = info_.shape == ShapeRule::kScatterAdd ? x(2) : idx;
      for (int d = 0; d < v.rank; ++d) {
        const bool bad = (d != dim && idx.sizes[d] > v.sizes[d]) || source.rank != v.rank ||
                         idx.sizes[d] > source.sizes[d];
        if (bad)
          return fail(
              "the index of shape " + shape_text(idx) + " does not fit the input " + shape_text(v) +
              (info_.shape == ShapeRule::kScatterAdd ? " and the source " + shape_text(source)
                                                     : std::string()));
      }
      if (info_.shape == ShapeRule::kGather) return expect(0, idx);
    }
    // In place: the output is the input.
    if (infer_) {
      out(0) = in(0);
      return {};
    }
    const View& o = y(0);
    const bool same = o.buffer == v.buffer && o.offset_bytes == v.offset_bytes &&
                      o.dtype == v.dtype && o.rank == v.rank &&
                      std::equal(o.sizes.begin(), o.sizes.begin() + o.rank, v.sizes.begin()) &&
                      std::equal(o.strides.begin(), o.strides.begin() + o.rank, v.strides.begin());
    return same ? Status() : fail("works in place: the output must be the first input");
  }

  Status shapes() {
    Status s = shape_rule();
    if (!s.ok() || infer_) return s;
    for (int i = 0; i < op_.output_count; ++i) NAX_RETURN_IF_ERROR(writable(y(i)));
    return overlaps();
  }

  // An output may share memory with an input only as the same view, read and written place by
  // place.
  Status overlaps() {
    const bool in_place = info_.kind == OpKind::kPointwise || info_.kind == OpKind::kRow ||
                          info_.kind == OpKind::kScan;
    for (int o = 0; o < op_.output_count; ++o)
      for (int i = 0; i < op_.input_count + o; ++i) {
        const WindowOperand& other = in(i);
        if (other.cls != OperandClass::kTensor || other.view.buffer != y(o).buffer) continue;
        if (i < op_.input_count && same_view(other.view, y(o))) {
          if (in_place && info_.shape != ShapeRule::kReduce) continue;
          if (info_.kind == OpKind::kMatmul && i == 0 && op_.input_count > 2)
            continue;  // the addend
          if (i == 0 &&
              (info_.shape == ShapeRule::kScatterAdd || info_.shape == ShapeRule::kIndexAdd))
            continue;
        }
        if (!may_overlap(other.view, y(o))) continue;
        return unimplemented(std::string(info_.name) + ": output " + std::to_string(o) +
                             " overlaps operand " + std::to_string(i) +
                             " in memory; allowed are disjoint views, or the same view for ops "
                             "that work place by place");
      }
    return {};
  }
  static bool same_view(const View& a, const View& b) {
    return a.rank == b.rank && a.offset_bytes == b.offset_bytes && a.dtype == b.dtype &&
           std::equal(a.sizes.begin(), a.sizes.begin() + a.rank, b.sizes.begin()) &&
           std::equal(a.strides.begin(), a.strides.begin() + a.rank, b.strides.begin());
  }

  Status shape_rule() {
    switch (info_.shape) {
      case ShapeRule::kBroadcast:
        return broadcast();
      case ShapeRule::kGiven:
        if (out(0).cls != OperandClass::kTensor) return fail("the output's shape must be given");
        if (op_.id == OpId::k_arange && y(0).rank != 1)
          return fail("the output must have one dimension, found shape " + shape_text(y(0)));
        if (infer_) set_contiguous(y(0));
        return {};
      case ShapeRule::kSame:
        if (op_.id == OpId::k_tril || op_.id == OpId::k_triu) {
          if (x(0).rank < 2)
            return fail("the input must have at least 2 dimensions, found shape " +
                        shape_text(x(0)));
        } else {
          NAX_RETURN_IF_ERROR(dim_in_range(attr(0), x(0).rank));
        }
        for (int i = 1; i < op_.input_count; ++i)
          if (tensor(i)) NAX_RETURN_IF_ERROR(same_shape(i, x(0)));
        return expect(0, x(0));
      case ShapeRule::kReduce:
        return reduce();
      case ShapeRule::kNorm:
        return norm();
      case ShapeRule::kNormBackward:
        return norm_backward();
      case ShapeRule::kMm:
        return matmul(0, false);
      case ShapeRule::kBmm:
        return matmul(0, true);
      case ShapeRule::kAddmm:
        return matmul(1, false);
      case ShapeRule::kBaddbmm:
        return matmul(1, true);
      default:
        return index();
    }
  }

  Window& w_;
  WindowOp& op_;
  const OpInfo& info_;
  const bool infer_;
};

// Pointwise ops on tensors of one shape, the hot path: no messages are built.
bool plain_pointwise(const Window& w, const WindowOp& op, const OpInfo& info) {
  if (info.shape != ShapeRule::kBroadcast || !info.expand || op.output_count != 1 ||
      op.input_count < info.min_inputs || op.input_count > info.max_inputs || op.attr_count != 0 ||
      op.compute == DType::kInvalid || !(info.compute & compute_class(op.compute)) ||
      op.id == OpId::k_where || op.id == OpId::k_masked_fill)
    return false;
  const WindowOperand& y = w.output(op, 0);
  if (y.cls != OperandClass::kTensor || !is_computable(y.view.dtype)) return false;
  for (int d = 0; d < y.view.rank; ++d)
    if (y.view.strides[d] == 0 && y.view.sizes[d] > 1) return false;
  bool tensor = false;
  for (int i = 0; i < op.input_count; ++i) {
    const WindowOperand& x = w.input(op, i);
    if (x.cls == OperandClass::kAbsent && !(info.optional >> i & 1)) return false;
    if (x.cls == OperandClass::kScalar && (info.tensors >> i & 1)) return false;
    if (x.cls != OperandClass::kTensor) continue;
    if (x.view.rank != y.view.rank || !is_computable(x.view.dtype)) return false;
    for (int d = 0; d < y.view.rank; ++d)
      if (x.view.sizes[d] != y.view.sizes[d]) return false;
    if (x.view.buffer == y.view.buffer) {
      if (x.view.offset_bytes != y.view.offset_bytes || x.view.dtype != y.view.dtype) return false;
      for (int d = 0; d < y.view.rank; ++d)
        if (x.view.strides[d] != y.view.strides[d]) return false;
    }
    tensor = true;
  }
  return tensor;
}

}  // namespace

Status check_op(Window& scratch, uint32_t op, bool infer) {
  WindowOp& o = scratch.ops[op];
  const OpInfo* info = op_info(o.id);
  if (!info)
    return invalid_argument("unknown op id " + std::to_string(static_cast<int>(o.id)) +
                            "; known are " + std::string(covered_op_names()));
  if (!infer && plain_pointwise(scratch, o, *info)) return {};
  return Checker(scratch, o, *info, infer).run();
}

}  // namespace nax
