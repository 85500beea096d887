// Matrix products.
#include "api/torch/pointwise.h"

#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/mm_meta.h>
#include <ATen/ops/mm_ops.h>
#include <torch/library.h>

namespace nax::binding {
namespace {

using at::Scalar;
using at::Tensor;

bool is_one(const Scalar& s) { return !s.isComplex() && s.toDouble() == 1.0; }
bool is_zero(const Scalar& s) { return !s.isComplex() && s.toDouble() == 0.0; }

// a @ b with something to multiply; an empty inner dimension is the CPU's business.
bool has_product(const Tensor& a, const Tensor& b, const Tensor& out) {
  return is_neuron(a) && is_neuron(b) && a.scalar_type() == b.scalar_type() &&
         out.scalar_type() == a.scalar_type() && a.numel() > 0 && b.numel() > 0;
}

template <nax_op_id kId, class Meta, class AtenOut>
struct Product {
  static Tensor& out(const Tensor& a, const Tensor& b, Tensor& out) {
    Shaped<Meta> meta(out);
    meta.meta(a, b);
    out = meta.out();
    if (out.numel() == 0) return out;
    if (has_product(a, b, out) && Op(kId, a.scalar_type()).in(a).in(b).out(out).record()) return out;
    return fall_back<AtenOut>(a, b, out);
  }
  static Tensor functional(const Tensor& a, const Tensor& b) {
    Tensor result;
    return out(a, b, result);
  }
};

// beta * c + alpha * a @ b. With beta = 0, c is not read: NaNs in it do not count.
template <nax_op_id kId, nax_op_id kPlain, class Meta, class AtenOut>
struct AddedProduct {
  static Tensor& out(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                     Tensor& out) {
    Shaped<Meta> meta(out);
    meta.meta(c, a, b, beta, alpha);
    out = meta.out();
    if (out.numel() == 0) return out;
    if (has_product(a, b, out)) {
      if (is_zero(beta)) {
        if (is_one(alpha) && Op(kPlain, a.scalar_type()).in(a).in(b).out(out).record()) return out;
      } else if (is_neuron(c) && c.scalar_type() == a.scalar_type() &&
                 Op(kId, a.scalar_type()).in(c).in(a).in(b).in_factor(beta).in_factor(alpha).out(out).record()) {
        return out;
      }
    }
    return fall_back<AtenOut>(c, a, b, beta, alpha, out);
  }
  static Tensor functional(const Tensor& c, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
    Tensor result;
    return out(c, a, b, beta, alpha, result);
  }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Mm = Product<NAX_OP_MM, at::meta::structured_mm, at::_ops::mm_out>;
  using Bmm = Product<NAX_OP_BMM, at::meta::structured_bmm, at::_ops::bmm_out>;
  using Addmm = AddedProduct<NAX_OP_ADDMM, NAX_OP_MM, at::meta::structured_addmm, at::_ops::addmm_out>;
  using Baddbmm = AddedProduct<NAX_OP_BADDBMM, NAX_OP_BMM, at::meta::structured_baddbmm, at::_ops::baddbmm_out>;
  m.impl("mm", &Mm::functional);
  m.impl("mm.out", &Mm::out);
  m.impl("bmm", &Bmm::functional);
  m.impl("bmm.out", &Bmm::out);
  m.impl("addmm", &Addmm::functional);
  m.impl("addmm.out", &Addmm::out);
  m.impl("baddbmm", &Baddbmm::functional);
  m.impl("baddbmm.out", &Baddbmm::out);
}

}  // namespace
}  // namespace nax::binding
