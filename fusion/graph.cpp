#include "fusion/graph.h"

#include <algorithm>
#include <cstring>

namespace nax {
namespace {

constexpr uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15ull;
  return h ^ (h >> 29);
}

bool equal_prefix(const int64_t* a, const int64_t* b, int n) {
  for (int i = 0; i < n; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

bool same_geometry(const View& a, const View& b) {
  return a.rank == b.rank && a.dtype == b.dtype && a.offset_bytes == b.offset_bytes &&
         equal_prefix(a.sizes.data(), b.sizes.data(), a.rank) &&
         equal_prefix(a.strides.data(), b.strides.data(), a.rank);
}

// Views beyond this many of one buffer count as overlapping with all others: bounds the pairs of a
// window.
constexpr uint32_t kMaxComparedViews = 256;

// Whether two interleaved views (rows of one pitch, column ranges) share no element: both are read
// as mixed-radix numbers over the same strides; false means "not known".
bool disjoint_by_strides(const GraphCanonicalView& a, const GraphCanonicalView& b) {
  if (a.dtype != b.dtype || a.rank == 0 || b.rank == 0) return false;
  const int64_t item = static_cast<int64_t>(dtype_size(a.dtype));
  if ((a.offset_bytes - b.offset_bytes) % item != 0) return false;
  struct Dim {
    int64_t stride, extent;
  };
  auto sorted = [](const GraphCanonicalView& v, std::array<Dim, kMaxRank>& out) {
    for (int i = 0; i < v.rank; ++i) {
      if (v.strides[i] <= 0) return false;
      out[i] = {v.strides[i], (v.sizes[i] - 1) * v.strides[i]};
    }
    for (int i = 1; i < v.rank; ++i)  // by falling stride
      for (int j = i; j > 0 && out[j - 1].stride < out[j].stride; --j)
        std::swap(out[j - 1], out[j]);
    return true;
  };
  std::array<Dim, kMaxRank> da, db;
  if (!sorted(a, da) || !sorted(b, db)) return false;
  const int64_t low = std::min(a.offset_bytes, b.offset_bytes);
  // Positions relative to the pitch grid of the buffer's start matter only as differences, so any
  // common origin works; the origin that lets both fit without wrapping is tried from each view's
  // own offset.
  for (const int64_t origin : {low, int64_t{0}}) {
    int64_t oa = (a.offset_bytes - origin) / item, ob = (b.offset_bytes - origin) / item;
    if ((a.offset_bytes - origin) % item != 0) continue;
    int i = 0, j = 0;
    auto rest = [](const std::array<Dim, kMaxRank>& d, int from, int rank) {
      int64_t sum = 1;
      for (int k = from; k < rank; ++k) sum += d[k].extent;
      return sum;
    };
    while (i < a.rank || j < b.rank) {
      const int64_t sa = i < a.rank ? da[i].stride : 0, sb = j < b.rank ? db[j].stride : 0;
      const int64_t pitch = std::max(sa, sb);
      const int ni = sa == pitch ? i + 1 : i, nj = sb == pitch ? j + 1 : j;
      const int64_t ea = rest(da, ni, a.rank), eb = rest(db, nj, b.rank);
      const int64_t ra = oa % pitch, rb = ob % pitch;
      if (ra + ea > pitch || rb + eb > pitch) break;
      if (ra + ea <= rb || rb + eb <= ra) return true;
      oa = ra, ob = rb, i = ni, j = nj;
    }
  }
  return false;
}

void put_varint(std::string* out, uint64_t v) {
  char bytes[10];
  int n = 0;
  while (v >= 0x80) bytes[n++] = static_cast<char>(v | 0x80), v >>= 7;
  bytes[n++] = static_cast<char>(v);
  out->append(bytes, n);
}

// A writer into a buffer on the stack, so that most bytes of a key cost one store each.
class Writer {
 public:
  explicit Writer(std::string* out) : out_(out) {}
  ~Writer() { flush(); }
  void byte(uint8_t v) { data_[n_++] = static_cast<char>(v); }
  void varint(uint64_t v) {
    while (v >= 0x80) byte(static_cast<uint8_t>(v | 0x80)), v >>= 7;
    byte(static_cast<uint8_t>(v));
  }
  // Call before each record of at most kRoom bytes.
  void room() {
    if (n_ > sizeof data_ - kRoom) flush();
  }
  static constexpr size_t kRoom = 160;

 private:
  void flush() {
    out_->append(data_, n_);
    n_ = 0;
  }
  std::string* out_;
  size_t n_ = 0;
  char data_[4096];
};

}  // namespace

void Graph::Table::clear() {
  ++generation_;
  used_ = 0;
  if (slots_.empty()) slots_.resize(256);
}

template <class Equal>
int32_t Graph::Table::find(uint64_t hash, Equal equal) const {
  for (size_t i = hash;; ++i) {
    const Slot& s = slots_[i & (slots_.size() - 1)];
    if (s.generation != generation_) return -1;
    if (s.hash == hash && equal(s.id)) return s.id;
  }
}

void Graph::Table::insert(uint64_t hash, int32_t id) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  for (size_t i = hash;; ++i) {
    Slot& s = slots_[i & (slots_.size() - 1)];
    if (s.generation == generation_) continue;
    s = {generation_, id, hash};
    ++used_;
    return;
  }
}

void Graph::Table::grow() {
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(old.size() * 2, {});
  used_ = 0;
  for (const Slot& s : old)
    if (s.generation == generation_) insert(s.hash, s.id);
}

ValueId Graph::value_id(int64_t number) {
  if (number == 0 || number == 1) return static_cast<ValueId>(number);
  const uint64_t hash = mix(0, static_cast<uint64_t>(number));
  const int32_t found = value_table_.find(hash, [&](int32_t id) { return values_[id] == number; });
  if (found >= 0) return static_cast<ValueId>(found) + 2;
  values_.push_back(number);
  value_table_.insert(hash, static_cast<int32_t>(values_.size() - 1));
  return static_cast<ValueId>(values_.size() - 1) + 2;
}

int32_t Graph::shape_id(const View& v) {
  uint64_t hash = v.rank;
  for (int i = 0; i < v.rank; ++i) hash = mix(hash, static_cast<uint64_t>(v.sizes[i]));
  const int32_t found = shape_table_.find(hash, [&](int32_t id) {
    return shapes_[id].rank == v.rank &&
           equal_prefix(shape_sizes_[id].data(), v.sizes.data(), v.rank);
  });
  if (found >= 0) return found;
  GraphShape s;
  s.rank = v.rank;
  int64_t product = 1;
  for (int i = 0; i < v.rank; ++i) {
    s.dim[i] = value_id(v.sizes[i]);
    product *= v.sizes[i];
    s.prefix[i] = value_id(product);
    s.empty |= v.sizes[i] == 0;
  }
  shapes_.push_back(s);
  shape_sizes_.push_back(v.sizes);
  const auto id = static_cast<int32_t>(shapes_.size() - 1);
  shape_table_.insert(hash, id);
  return id;
}

namespace {

// The canonical dims of a view, its byte range, and by dim of the view: stride class and canonical
// dim.
GraphCanonicalView canonical(const View& v, GraphView* out) {
  GraphCanonicalView c;
  c.buffer = v.buffer;
  c.dtype = v.dtype;
  c.offset_bytes = v.offset_bytes;
  bool empty = false;
  for (int i = 0; i < v.rank; ++i) {
    const int64_t size = v.sizes[i], stride = v.strides[i];
    empty |= size == 0;
    out->stride[i] = size == 1 || stride == 0 ? StrideClass::kZero
                     : stride == 1            ? StrideClass::kOne
                     : stride < 0             ? StrideClass::kNegative
                                              : StrideClass::kMany;
    if (size == 1 || stride == 0) {
      out->canon[i] = -1;
      continue;
    }
    const int last = c.rank - 1;
    if (last >= 0 && c.strides[last] == stride * size) {
      c.sizes[last] *= size;
      c.strides[last] = stride;
    } else {
      c.sizes[c.rank] = size;
      c.strides[c.rank] = stride;
      ++c.rank;
    }
    out->canon[i] = static_cast<int8_t>(c.rank - 1);
  }
  c.first_byte = c.last_byte = v.offset_bytes;
  if (empty) return c;
  const auto item = static_cast<int64_t>(dtype_size(v.dtype));
  c.last_byte += item;
  for (int i = 0; i < c.rank; ++i) {
    const int64_t span = (c.sizes[i] - 1) * c.strides[i] * item;
    (span < 0 ? c.first_byte : c.last_byte) += span;
  }
  return c;
}

bool disjoint(const GraphCanonicalView& x, const GraphCanonicalView& y) {
  return x.last_byte <= y.first_byte || y.last_byte <= x.first_byte || disjoint_by_strides(x, y);
}

}  // namespace

bool may_overlap(const View& a, const View& b) {
  GraphView ignored;
  return a.buffer == b.buffer && !disjoint(canonical(a, &ignored), canonical(b, &ignored));
}

int32_t Graph::view_id(const View& v, GraphView* out) {
  GraphCanonicalView c = canonical(v, out);
  uint64_t hash = mix(static_cast<uint64_t>(v.buffer) << 8 | static_cast<uint64_t>(v.dtype),
                      static_cast<uint64_t>(v.offset_bytes));
  for (int i = 0; i < c.rank; ++i)
    hash = mix(mix(hash, static_cast<uint64_t>(c.sizes[i])), static_cast<uint64_t>(c.strides[i]));
  const int32_t found = view_table_.find(hash, [&](int32_t id) {
    const GraphCanonicalView& x = views_[id];
    return x.buffer == c.buffer && x.dtype == c.dtype && x.offset_bytes == c.offset_bytes &&
           x.rank == c.rank && equal_prefix(x.sizes.data(), c.sizes.data(), c.rank) &&
           equal_prefix(x.strides.data(), c.strides.data(), c.rank);
  });
  if (found >= 0) return found;
  GraphBuffer& b = buffers_[v.buffer];
  c.next = b.first_view;
  const auto id = static_cast<int32_t>(views_.size());
  b.first_view = id;
  ++b.view_count;
  views_.push_back(c);
  view_table_.insert(hash, id);
  return id;
}

void Graph::add_view(const View& v, GraphView* out) {
  out->buffer = v.buffer;
  out->dtype = v.dtype;
  out->rank = v.rank;
  out->shape = shape_id(v);
  out->view = view_id(v, out);
}

void Graph::analyze(const Window& window) {
  value_table_.clear();
  shape_table_.clear();
  view_table_.clear();
  values_.clear();
  shapes_.clear();
  shape_sizes_.clear();
  views_.clear();
  buffers_.clear();
  for (const WindowBuffer& b : window.buffers) {
    GraphBuffer g;
    g.live_out = b.live_out;
    g.born_here = b.born_here;
    buffers_.push_back(g);
  }
  recent_.assign(buffers_.size(), nullptr);
  recent_operand_.assign(buffers_.size(), 0);
  attrs_.assign(window.attrs.begin(), window.attrs.end());
  ops_.resize(window.ops.size());
  operands_.resize(window.operands.size());
  for (size_t i = 0; i < window.ops.size(); ++i) {
    const WindowOp& from = window.ops[i];
    ops_[i] = {from.id,         from.compute,       from.input_count, from.output_count,
               from.attr_count, from.first_operand, from.first_attr};
    const int count = from.input_count + from.output_count;
    for (int k = 0; k < count; ++k) {
      const uint32_t at = from.first_operand + k;
      const WindowOperand& operand = window.operands[at];
      GraphOperand& to = operands_[at];
      to.cls = operand.cls;
      if (operand.cls != OperandClass::kTensor) continue;
      const View& v = operand.view;
      if (recent_[v.buffer] && same_geometry(*recent_[v.buffer], v)) {
        to.view = operands_[recent_operand_[v.buffer]].view;
      } else {
        add_view(v, &to.view);
      }
      recent_[v.buffer] = &v;
      recent_operand_[v.buffer] = at;
      GraphBuffer& b = buffers_[v.buffer];
      ++b.touches;
      if (k >= from.input_count) b.written = true, views_[to.view.view].written = true;
    }
  }
}

AliasClass Graph::alias(int32_t a, int32_t b) const {
  if (a == b) return AliasClass::kSame;
  const GraphCanonicalView &x = views_[a], &y = views_[b];
  if (x.buffer != y.buffer) return AliasClass::kDisjoint;
  if (buffers_[x.buffer].view_count > kMaxComparedViews) return AliasClass::kOverlapping;
  return disjoint(x, y) ? AliasClass::kDisjoint : AliasClass::kOverlapping;
}

void Graph::append_key(std::string* out) const {
  int32_t known_shapes = 0;
  {
    Writer w(out);
    w.varint(ops_.size());
    for (const GraphOp& op : ops_) {
      w.room();
      w.varint(static_cast<uint64_t>(op.id));
      w.byte(static_cast<uint8_t>(op.compute));
      w.byte(op.input_count);
      w.byte(op.output_count);
      w.byte(op.attr_count);
      for (int i = 0; i < op.attr_count; ++i)
        w.room(), w.varint(static_cast<uint64_t>(attrs_[op.first_attr + i]));
      const int count = op.input_count + op.output_count;
      for (int i = 0; i < count; ++i) {
        const GraphOperand& operand = operands_[op.first_operand + i];
        w.room();
        w.byte(static_cast<uint8_t>(operand.cls));
        if (operand.cls != OperandClass::kTensor) continue;
        const GraphView& v = operand.view;
        w.varint(static_cast<uint64_t>(v.buffer));
        w.varint(static_cast<uint64_t>(v.view));
        w.varint(static_cast<uint64_t>(v.shape));
        w.byte(static_cast<uint8_t>(v.dtype));
        for (int d = 0; d < v.rank; ++d)
          w.byte(static_cast<uint8_t>(static_cast<uint8_t>(v.stride[d]) << 4 |
                                      static_cast<uint8_t>(v.canon[d] + 1)));
        if (v.shape < known_shapes) continue;
        known_shapes = v.shape + 1;
        const GraphShape& s = shapes_[v.shape];
        w.byte(s.rank);
        for (int d = 0; d < s.rank; ++d) w.varint(s.dim[d]), w.varint(s.prefix[d]);
      }
    }
  }
  put_varint(out, buffers_.size());
  for (const GraphBuffer& b : buffers_)
    out->push_back(static_cast<char>((b.live_out ? 1 : 0) | (b.born_here ? 2 : 0)));
  for (const GraphBuffer& b : buffers_) {
    if (!b.written || b.view_count > kMaxComparedViews) continue;
    for (int32_t x = b.first_view; x >= 0; x = views_[x].next)
      for (int32_t y = views_[x].next; y >= 0; y = views_[y].next) {
        if (!views_[x].written && !views_[y].written) continue;
        if (alias(x, y) != AliasClass::kOverlapping) continue;
        put_varint(out, static_cast<uint64_t>(x) + 1);
        put_varint(out, static_cast<uint64_t>(y) + 1);
      }
  }
  put_varint(out, 0);
}

}  // namespace nax
