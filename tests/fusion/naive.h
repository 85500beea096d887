// An op evaluated the slow way, in doubles: what engines must give within rounding. Follows ATen's
// definitions and shares nothing with the lowering.
#pragma once

#include "tests/fusion/window_maker.h"

namespace nax::test {

class Naive {
 public:
  Naive(const Window& w, uint32_t op, Memory& memory) : w_(w), op_(w.ops[op]), m_(memory) {}

  // Writes the outputs. False where this evaluator does not know the op.
  bool run() {
    const OpInfo& info = *op_info(op_.id);
    switch (info.kind) {
      case OpKind::kPointwise:
        return pointwise();
      case OpKind::kReduction:
        return reduction();
      case OpKind::kRow:
        return info.shape == ShapeRule::kReduce ? reduction() : rows();
      case OpKind::kScan:
        return scan();
      case OpKind::kMatmul:
        return matmul();
      case OpKind::kIndex:
        return index();
    }
    return false;
  }

 private:
  const WindowOperand& in(int i) const { return w_.input(op_, i); }
  const View& y(int i) const { return w_.output(op_, i).view; }
  bool absent(int i) const { return in(i).cls == OperandClass::kAbsent; }
  double at(const View& v, int64_t i) const {
    return load_element(m_[v.buffer].data() + element_offset(v, i), v.dtype);
  }
  void put(const View& v, int64_t i, double x) {
    store_element(m_[v.buffer].data() + element_offset(v, i), v.dtype, x);
  }
  double to_compute(double v, DType t) const {
    alignas(8) uint8_t bytes[8];
    store_element(bytes, t, v);
    return load_element(bytes, t);
  }
  // Input i at the point of the output's space.
  double value(int i, int64_t point, const View& space) const {
    if (in(i).cls == OperandClass::kScalar) return in(i).scalar.to_f64();
    const View& v = in(i).view;
    int64_t offset = 0;
    for (int d = space.rank - 1; d >= 0; --d) {
      const int64_t c = point % space.sizes[d];
      point /= space.sizes[d];
      const int e = d - (space.rank - v.rank);
      if (e >= 0 && v.sizes[e] != 1) offset += c * v.strides[e];
    }
    const double raw = load_element(
        m_[v.buffer].data() + v.offset_bytes + offset * static_cast<int64_t>(dtype_size(v.dtype)),
        v.dtype);
    if (op_.id == OpId::k_copy || op_.id == OpId::k_where || op_.id == OpId::k_masked_fill)
      return raw;
    return to_compute(raw, op_.compute);
  }

  double function(const std::vector<double>& a) const {
    const double x = a.empty() ? 0 : a[0], z = a.size() > 1 ? a[1] : 0, t = a.size() > 2 ? a[2] : 0;
    const bool ints = !is_floating(op_.compute), boolean = op_.compute == DType::kBool;
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    switch (op_.id) {
      case OpId::k_copy:
      case OpId::k_fill:
        return x;
      case OpId::k_neg:
        return -x;
      case OpId::k_abs:
        return std::fabs(x);
      case OpId::k_sign:
        return (x > 0) - (x < 0);
      case OpId::k_exp:
        return std::exp(x);
      case OpId::k_log:
        return std::log(x);
      case OpId::k_log1p:
        return std::log1p(x);
      case OpId::k_expm1:
        return std::expm1(x);
      case OpId::k_exp2:
        return std::exp2(x);
      case OpId::k_log2:
        return std::log2(x);
      case OpId::k_log10:
        return std::log10(x);
      case OpId::k_sqrt:
        return std::sqrt(x);
      case OpId::k_rsqrt:
        return 1 / std::sqrt(x);
      case OpId::k_reciprocal:
        return 1 / x;
      case OpId::k_square:
        return x * x;
      case OpId::k_cube:
        return x * x * x;
      case OpId::k_sin:
        return std::sin(x);
      case OpId::k_cos:
        return std::cos(x);
      case OpId::k_tan:
        return std::tan(x);
      case OpId::k_tanh:
        return std::tanh(x);
      case OpId::k_sigmoid:
        return sigmoid(x);
      case OpId::k_silu:
        return x * sigmoid(x);
      case OpId::k_relu:
        return x > 0 ? x : std::isnan(x) ? x : 0;
      case OpId::k_gelu:
        return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
      case OpId::k_gelu_tanh:
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
      case OpId::k_erf:
        return std::erf(x);
      case OpId::k_erfc:
        return std::erfc(x);
      case OpId::k_floor:
        return std::floor(x);
      case OpId::k_ceil:
        return std::ceil(x);
      case OpId::k_trunc:
        return std::trunc(x);
      case OpId::k_round:
        return std::nearbyint(x);
      case OpId::k_isnan:
        return std::isnan(x);
      case OpId::k_isinf:
        return std::isinf(x);
      case OpId::k_logical_not:
        return x == 0;
      case OpId::k_bitwise_not:
        return boolean ? x == 0 : static_cast<double>(~static_cast<int64_t>(x));
      case OpId::k_recip_square:
        return 1 / (x * x);
      case OpId::k_softplus:
        return x * z > t ? x : std::log1p(std::exp(x * z)) / z;
      case OpId::k_add:
        return boolean ? (x != 0 || (z != 0 && (a.size() < 3 || t != 0)))
                       : x + (a.size() > 2 ? t : 1) * z;
      case OpId::k_sub:
        return x - (a.size() > 2 ? t : 1) * z;
      case OpId::k_mul:
        return x * z;
      case OpId::k_div:
        return x / z;
      case OpId::k_div_floor:
        return ints && z == 0 ? 0 : std::floor(x / z);
      case OpId::k_div_trunc:
        return ints && z == 0 ? 0 : std::trunc(x / z);
      case OpId::k_remainder:
        return ints && z == 0 ? 0 : x - z * std::floor(x / z);
      case OpId::k_fmod:
        return ints && z == 0 ? 0 : std::fmod(x, z);
      case OpId::k_pow:
        return std::pow(x, z);
      case OpId::k_maximum:
        return std::isnan(x) || std::isnan(z) ? NAN : std::max(x, z);
      case OpId::k_minimum:
        return std::isnan(x) || std::isnan(z) ? NAN : std::min(x, z);
      case OpId::k_eq:
        return x == z;
      case OpId::k_ne:
        return x != z;
      case OpId::k_lt:
        return x < z;
      case OpId::k_le:
        return x <= z;
      case OpId::k_gt:
        return x > z;
      case OpId::k_ge:
        return x >= z;
      case OpId::k_logical_and:
        return x != 0 && z != 0;
      case OpId::k_logical_or:
        return x != 0 || z != 0;
      case OpId::k_logical_xor:
        return (x != 0) != (z != 0);
      case OpId::k_bitwise_and:
        return static_cast<double>(static_cast<int64_t>(x) & static_cast<int64_t>(z));
      case OpId::k_bitwise_or:
        return static_cast<double>(static_cast<int64_t>(x) | static_cast<int64_t>(z));
      case OpId::k_bitwise_xor:
        return static_cast<double>(static_cast<int64_t>(x) ^ static_cast<int64_t>(z));
      case OpId::k_atan2:
        return std::atan2(x, z);
      case OpId::k_where:
        return x != 0 ? z : t;
      case OpId::k_masked_fill:
        return z != 0 ? t : x;
      case OpId::k_lerp:
        return std::fabs(t) < 0.5 ? x + t * (z - x) : z - (z - x) * (1 - t);
      case OpId::k_addcmul:
        return x + (a.size() > 3 ? a[3] : 1) * z * t;
      case OpId::k_addcdiv:
        return x + (a.size() > 3 ? a[3] : 1) * z / t;
      case OpId::k_threshold_backward:
        return z <= t ? 0 : x;
      case OpId::k_sigmoid_backward:
        return x * (1 - z) * z;
      case OpId::k_tanh_backward:
        return x * (1 - z * z);
      case OpId::k_silu_backward:
        return x * sigmoid(z) * (1 + z * (1 - sigmoid(z)));
      case OpId::k_gelu_backward:
        return x * (0.5 * (1 + std::erf(z * M_SQRT1_2)) +
                    z * std::exp(-0.5 * z * z) / std::sqrt(2 * M_PI));
      case OpId::k_gelu_tanh_backward: {
        const double b = std::sqrt(2 / M_PI), u = std::tanh(b * (z + 0.044715 * z * z * z));
        return x * (0.5 * (1 + u) + 0.5 * z * (1 - u * u) * b * (1 + 3 * 0.044715 * z * z));
      }
      default:
        FAIL("no naive function for " << op_info(op_.id)->name);
        return 0;
    }
  }

  bool pointwise() {
    const View& out = y(0);
    const int64_t n = numel(out);
    std::vector<double> results(static_cast<size_t>(n));
    for (int64_t p = 0; p < n; ++p) {
      double r;
      if (op_.id == OpId::k_arange) {
        r = in(0).scalar.to_f64() + static_cast<double>(p) * in(1).scalar.to_f64();
      } else if (op_.id == OpId::k_tril || op_.id == OpId::k_triu) {
        const int64_t c = p % out.sizes[out.rank - 1],
                      row = p / out.sizes[out.rank - 1] % out.sizes[out.rank - 2];
        const bool keep =
            op_.id == OpId::k_tril ? c - row <= w_.attr(op_, 0) : c - row >= w_.attr(op_, 0);
        r = keep ? value(0, p, out) : 0;
      } else if (op_.id == OpId::k_clamp) {
        r = value(0, p, out);
        if (!absent(1)) r = std::max(r, value(1, p, out));
        if (!absent(2)) r = std::min(r, value(2, p, out));
      } else {
        std::vector<double> a;
        for (int i = 0; i < op_.input_count; ++i)
          if (!absent(i)) a.push_back(value(i, p, out));
        r = function(a);
      }
      if (op_info(op_.id)->dtype == DTypeRule::kCompute && op_.id != OpId::k_copy)
        r = to_compute(r, op_.compute);
      results[static_cast<size_t>(p)] = r;
    }
    for (int64_t p = 0; p < n; ++p) put(out, p, results[static_cast<size_t>(p)]);
    return true;
  }

  uint32_t mask() const {
    const OpInfo& info = *op_info(op_.id);
    const int rank = in(0).view.rank;
    if (info.shape == ShapeRule::kReduce) return static_cast<uint32_t>(w_.attr(op_, 0));
    if (info.shape == ShapeRule::kSame) return rank ? 1u << w_.attr(op_, 0) : 0;
    return ((1u << w_.attr(op_, 0)) - 1) << (rank - w_.attr(op_, 0));
  }

  // Logical indices of input 0 by kept index: rows in logical order of the reduced dims.
  std::vector<std::vector<int64_t>> row_indices() const {
    const View& x = in(0).view;
    const uint32_t m = mask();
    int64_t kept = 1;
    for (int d = 0; d < x.rank; ++d)
      if (!(m >> d & 1)) kept *= x.sizes[d];
    std::vector<std::vector<int64_t>> out(static_cast<size_t>(kept));
    for (int64_t i = 0; i < numel(x); ++i) {
      int64_t rest = i, k = 0, step = 1;
      for (int d = x.rank - 1; d >= 0; --d) {
        const int64_t c = rest % x.sizes[d];
        rest /= x.sizes[d];
        if (!(m >> d & 1)) k += c * step, step *= x.sizes[d];
      }
      out[static_cast<size_t>(k)].push_back(i);
    }
    return out;
  }

  bool reduction() {
    const View& x = in(0).view;
    const auto rows = row_indices();
    std::vector<double> results;
    for (const auto& row : rows) {
      const double n = static_cast<double>(row.size());
      double sum = 0, prod = 1, hi = -INFINITY, lo = INFINITY, squares = 0;
      bool any = false, all = true, nan = false;
      for (const int64_t i : row) {
        const double v = op_.id == OpId::k_any || op_.id == OpId::k_all
                             ? at(x, i)
                             : to_compute(at(x, i), op_.compute);
        sum += v, prod *= v, squares += v * v, nan |= std::isnan(v);
        hi = std::max(hi, v), lo = std::min(lo, v), any |= v != 0, all &= v != 0;
      }
      double r = 0;
      switch (op_.id) {
        case OpId::k_sum:
          r = sum;
          break;
        case OpId::k_mean:
          r = sum / n;
          break;
        case OpId::k_amax:
          r = nan ? NAN : hi;
          break;
        case OpId::k_amin:
          r = nan ? NAN : lo;
          break;
        case OpId::k_prod:
          r = prod;
          break;
        case OpId::k_any:
          r = any;
          break;
        case OpId::k_all:
          r = all;
          break;
        case OpId::k_norm2:
          r = std::sqrt(squares);
          break;
        case OpId::k_var: {
          double s = 0;
          for (const int64_t i : row) s += (at(x, i) - sum / n) * (at(x, i) - sum / n);
          r = s / std::max(n - in(1).scalar.to_f64(), 0.0);
          break;
        }
        case OpId::k_logsumexp: {
          double s = 0;
          for (const int64_t i : row) s += std::exp(at(x, i) - hi);
          r = std::log(s) + hi;
          break;
        }
        default:
          return false;
      }
      if (op_info(op_.id)->dtype == DTypeRule::kCompute) r = to_compute(r, op_.compute);
      results.push_back(r);
    }
    for (size_t k = 0; k < results.size(); ++k) put(y(0), static_cast<int64_t>(k), results[k]);
    return true;
  }

  bool rows() {
    const View x = in(0).view;
    const auto row_list = row_indices();
    std::vector<double> out(static_cast<size_t>(numel(x)));
    std::vector<std::array<double, 2>> stats;
    size_t k = 0;
    for (const auto& row : row_list) {
      const double n = static_cast<double>(row.size());
      std::vector<double> v, u;
      for (const int64_t i : row) v.push_back(at(x, i));
      const auto total = [&](auto f) {
        double s = 0;
        for (size_t i = 0; i < v.size(); ++i) s += f(i);
        return s;
      };
      const double hi = v.empty() ? 0 : *std::max_element(v.begin(), v.end());
      if (op_.id == OpId::k_softmax_backward || op_.id == OpId::k_log_softmax_backward)
        for (const int64_t i : row) u.push_back(at(in(1).view, i));
      const auto affine = [&](double r, int64_t i) {
        if (!absent(1)) r *= value(1, i, x);
        if (op_.id == OpId::k_layer_norm && !absent(2)) r += value(2, i, x);
        return r;
      };
      double p = 0, q = 0;  // what the whole row gives
      const auto g = [&](size_t i) { return v[i] * (absent(4) ? 1 : value(4, row[i], x)); };
      const auto xhat = [&](size_t i) { return (at(in(1).view, row[i]) - p) * q; };
      double mean_g = 0, mean_gx = 0;
      switch (op_.id) {
        case OpId::k_softmax:
        case OpId::k_log_softmax:
          p = total([&](size_t i) { return std::exp(v[i] - hi); });
          break;
        case OpId::k_softmax_backward:
          p = total([&](size_t i) { return v[i] * u[i]; });
          break;
        case OpId::k_log_softmax_backward:
          p = total([&](size_t i) { return v[i]; });
          break;
        case OpId::k_layer_norm:
          p = total([&](size_t i) { return v[i]; }) / n;
          q = 1 / std::sqrt(total([&](size_t i) { return (v[i] - p) * (v[i] - p); }) / n +
                            in(3).scalar.to_f64());
          stats.push_back({p, q});
          break;
        case OpId::k_rms_norm:
          q = 1 /
              std::sqrt(total([&](size_t i) { return v[i] * v[i]; }) / n + in(2).scalar.to_f64());
          stats.push_back({q, 0});
          break;
        case OpId::k_layer_norm_backward:
          p = at(in(2).view, static_cast<int64_t>(k)), q = at(in(3).view, static_cast<int64_t>(k));
          mean_g = total(g) / n, mean_gx = total([&](size_t i) { return g(i) * xhat(i); }) / n;
          break;
        default:
          return false;
      }
      for (size_t j = 0; j < row.size(); ++j) {
        double r = 0;
        switch (op_.id) {
          case OpId::k_softmax:
            r = std::exp(v[j] - hi) / p;
            break;
          case OpId::k_log_softmax:
            r = v[j] - hi - std::log(p);
            break;
          case OpId::k_softmax_backward:
            r = (v[j] - p) * u[j];
            break;
          case OpId::k_log_softmax_backward:
            r = v[j] - std::exp(u[j]) * p;
            break;
          case OpId::k_layer_norm:
            r = affine((v[j] - p) * q, row[j]);
            break;
          case OpId::k_rms_norm:
            r = affine(v[j] * q, row[j]);
            break;
          default:
            r = (g(j) - mean_g - xhat(j) * mean_gx) * q;
            break;
        }
        out[static_cast<size_t>(row[j])] = r;
      }
      ++k;
    }
    for (int64_t i = 0; i < numel(x); ++i)
      put(y(0), i, to_compute(out[static_cast<size_t>(i)], op_.compute));
    for (int o = 1; o < op_.output_count; ++o)
      for (size_t r = 0; r < stats.size(); ++r)
        put(y(o), static_cast<int64_t>(r), stats[r][static_cast<size_t>(o - 1)]);
    return true;
  }

  bool scan() {
    for (const auto& row : row_indices()) {
      double s = 0;
      for (const int64_t i : row) {
        s += to_compute(at(in(0).view, i), op_.compute);
        if (op_.compute == DType::kF16 || op_.compute == DType::kBF16) s = static_cast<float>(s);
        put(y(0), i, s);
      }
    }
    return true;
  }

  bool matmul() {
    const bool addend = op_info(op_.id)->shape == ShapeRule::kAddmm ||
                        op_info(op_.id)->shape == ShapeRule::kBaddbmm;
    const View &a = in(addend).view, &b = in(addend + 1).view, &out = y(0);
    const int r = a.rank;
    const int64_t batch = r == 3 ? a.sizes[0] : 1, m = a.sizes[r - 2], k = a.sizes[r - 1],
                  n = b.sizes[r - 1];
    std::vector<double> results;
    for (int64_t p = 0; p < batch * m * n; ++p) {
      const int64_t z = p / (m * n), i = p / n % m, j = p % n;
      double s = 0;
      for (int64_t q = 0; q < k; ++q) s += at(a, (z * m + i) * k + q) * at(b, (z * k + q) * n + j);
      if (addend) {
        if (!absent(4)) s *= in(4).scalar.to_f64();
        s += value(0, p, out) * (absent(3) ? 1 : in(3).scalar.to_f64());
      }
      results.push_back(to_compute(s, op_.compute));
    }
    for (int64_t p = 0; p < batch * m * n; ++p) put(out, p, results[static_cast<size_t>(p)]);
    return true;
  }

  // Coordinates of element i of v.
  static std::array<int64_t, kMaxRank> coordinates(const View& v, int64_t i) {
    std::array<int64_t, kMaxRank> c = {};
    for (int d = v.rank - 1; d >= 0; --d) c[d] = i % v.sizes[d], i /= v.sizes[d];
    return c;
  }
  double at(const View& v, const std::array<int64_t, kMaxRank>& c) const {
    return load_element(m_[v.buffer].data() + offset(v, c), v.dtype);
  }
  static int64_t offset(const View& v, const std::array<int64_t, kMaxRank>& c) {
    int64_t o = 0;
    for (int d = 0; d < v.rank; ++d) o += c[d] * v.strides[d];
    return v.offset_bytes + o * static_cast<int64_t>(dtype_size(v.dtype));
  }

  bool index() {
    const View &x = in(0).view, &idx = in(1).view;
    const auto dim = static_cast<size_t>(w_.attr(op_, 0));
    const ShapeRule rule = op_info(op_.id)->shape;
    const View& space = rule == ShapeRule::kScatterAdd || rule == ShapeRule::kGather ? idx
                        : rule == ShapeRule::kIndexAdd                               ? in(2).view
                                                                                     : y(0);
    for (int64_t i = 0; i < numel(space); ++i) {
      auto c = coordinates(space, i);
      const auto point = c;
      std::array<int64_t, kMaxRank> ic = {};
      if (rule == ShapeRule::kGather || rule == ShapeRule::kScatterAdd)
        ic = c;
      else
        ic[0] = c[dim];
      auto target = static_cast<int64_t>(at(idx, ic));
      if (target < 0) target += x.sizes[dim];
      c[dim] = target;
      if (rule == ShapeRule::kGather || rule == ShapeRule::kIndexSelect) {
        put(y(0), i, at(x, c));
      } else {
        double v = at(in(2).view, point);
        if (rule == ShapeRule::kIndexAdd && !absent(3))
          v = to_compute(v * in(3).scalar.to_f64(), op_.compute);
        store_element(m_[x.buffer].data() + offset(x, c), x.dtype, at(x, c) + v);
      }
    }
    return true;
  }

  const Window& w_;
  const WindowOp& op_;
  Memory& m_;
};

}  // namespace nax::test
