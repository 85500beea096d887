#include "device/isa/serialize.h"

#include <bit>
#include <concepts>
#include <cstring>
#include <vector>

#include "device/isa/opcode_info.h"
#include "device/isa/verify.h"

namespace nax {
namespace {

constexpr uint32_t kMagic = 0x5058414e;  // "NAXP"

// Writer and reader have the same interface, and the layout is written once, as a template over
// both.
class Writer {
 public:
  explicit Writer(std::string* out) : out_(out) {}
  static constexpr bool kReading = false;

  template <std::integral T>
  void number(T& value) {
    using U = std::make_unsigned_t<T>;
    auto u = static_cast<U>(value);
    for (size_t i = 0; i < sizeof(T); ++i) {
      out_->push_back(static_cast<char>(u & 0xff));
      if constexpr (sizeof(T) > 1) u = static_cast<U>(u >> 8);
    }
  }
  void text(std::string& s) {
    auto size = static_cast<uint32_t>(s.size());
    number(size);
    *out_ += s;
  }
  template <class T>
  uint32_t count(std::vector<T>& v) {
    auto size = static_cast<uint32_t>(v.size());
    number(size);
    return size;
  }
  bool good() const { return true; }
  void fail(const char*) {}

 private:
  std::string* out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  static constexpr bool kReading = true;

  template <std::integral T>
  void number(T& value) {
    if (bytes_.size() - at_ < sizeof(T)) return fail("ends early");
    using U = std::make_unsigned_t<T>;
    U u = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      const auto byte = static_cast<unsigned char>(bytes_[at_ + i]);
      u = static_cast<U>(u | static_cast<U>(static_cast<U>(byte) << (8 * i)));
    }
    at_ += sizeof(T);
    value = static_cast<T>(u);
  }
  void text(std::string& s) {
    uint32_t size = 0;
    number(size);
    if (!good()) return;
    if (size > bytes_.size() - at_) return fail("a text is longer than the bytes");
    s.assign(bytes_.substr(at_, size));
    at_ += size;
  }
  // Every element takes at least one byte, so a count beyond the bytes is damage, not a reason to
  // allocate.
  template <class T>
  uint32_t count(std::vector<T>& v) {
    uint32_t size = 0;
    number(size);
    if (good() && size > bytes_.size() - at_) fail("a list is longer than the bytes");
    if (!good()) return 0;
    v.resize(size);
    return size;
  }
  bool good() const { return reason_ == nullptr; }
  void fail(const char* reason) {
    if (!reason_) {
      reason_ = reason;
      failed_at_ = at_;
    }
    at_ = bytes_.size();
  }
  bool at_end() const { return at_ == bytes_.size(); }
  const char* reason() const { return reason_; }
  size_t failed_at() const { return failed_at_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0, failed_at_ = 0;
  const char* reason_ = nullptr;
};

template <class S, class E>
void enumeration(S& s, E& value, int limit) {
  using U = std::underlying_type_t<E>;
  auto u = static_cast<U>(value);
  s.number(u);
  if (static_cast<int64_t>(u) >= limit) return s.fail("a value is out of its range");
  value = static_cast<E>(u);
}

template <class S>
void flags(S& s, bool& a, bool& b) {
  auto u = static_cast<uint8_t>((a ? 1 : 0) | (b ? 2 : 0));
  s.number(u);
  if (u > 3) return s.fail("unknown flags");
  a = u & 1;
  b = u & 2;
}

template <class S>
void flag(S& s, bool& value) {
  auto u = static_cast<uint8_t>(value ? 1 : 0);
  s.number(u);
  if (u > 1) return s.fail("unknown flags");
  value = u != 0;
}

template <class S>
void access(S& s, HbmAccess& h, size_t axes) {
  s.number(h.arg);
  s.number(h.offset);
  for (size_t i = 0; i < axes; ++i) s.number(h.strides[i]);
  s.number(h.index);
  s.number(h.index_stride);
  s.number(h.index_size);
  flag(s, h.accumulate);
}

template <class S>
void instr(S& s, Instr& i, size_t axes) {
  enumeration(s, i.opcode, kOpcodeCount);
  enumeration(s, i.engine, kEngineCount);
  if (!s.good()) return;
  const OpcodeInfo& info = opcode_info(i.opcode);
  if (info.fn == OpcodeFn::kScalar || info.fn == OpcodeFn::kSelect)
    enumeration(s, i.fn, kScalarOpLimit);
  if (info.fn == OpcodeFn::kReduce) {
    enumeration(s, i.reduce, 6);
    enumeration(s, i.order, 3);
    flag(s, i.start);
  }
  if (i.opcode == Opcode::kIota) s.number(i.axis);
  if (i.opcode != Opcode::kDmaStore) s.number(i.dst);
  for (size_t k = 0; k < info.max_src; ++k) {
    enumeration(s, i.src[k].kind, 4);
    s.number(i.src[k].id);
  }
  if (i.opcode == Opcode::kDmaLoad || i.opcode == Opcode::kDmaStore || i.opcode == Opcode::kPhilox)
    access(s, i.hbm, axes);
  s.number(i.op);
}

template <class S>
void nest(S& s, Nest& n) {
  if (s.count(n.axes) > kMaxAxes) return s.fail("too many axes");
  for (Axis& a : n.axes) {
    enumeration(s, a.role, 4);
    enumeration(s, a.kind, 3);
    s.number(a.extent);
    s.number(a.split_outer);
    s.number(a.split_limit);
    s.number(a.tile);
  }
  s.count(n.tiles);
  for (Tile& t : n.tiles) {
    enumeration(s, t.space, 2);
    enumeration(s, t.shape, 4);
    enumeration(s, t.dtype, kDTypeCount);
  }
  flag(s, n.has_matmul);
  if (n.has_matmul) {
    access(s, n.matmul.a, n.axes.size());
    access(s, n.matmul.b, n.axes.size());
    s.number(n.matmul.psum);
    s.number(n.matmul.op);
  }
  for (std::vector<Instr>* list : {&n.body, &n.finish}) {
    s.count(*list);
    for (Instr& i : *list) {
      if (!s.good()) return;
      instr(s, i, n.axes.size());
    }
  }
}

template <class S>
void program(S& s, Program& p) {
  s.text(p.name);
  s.text(p.target);
  s.number(p.op_count);
  s.count(p.args);
  for (ArgDecl& a : p.args) {
    enumeration(s, a.kind, 4);
    enumeration(s, a.dtype, kDTypeCount);
    s.number(a.rank);
    flags(s, a.read, a.written);
    s.number(a.scratch_elements);
  }
  s.count(p.slots);
  for (Slot& slot : p.slots) {
    enumeration(s, slot.op, 10);
    if (slot.op == SlotOp::kConst) {
      s.number(slot.imm);
    } else {
      s.number(slot.a);
      s.number(slot.b);
    }
  }
  s.count(p.constants);
  for (ScalarValue& v : p.constants) {
    enumeration(s, v.kind, 3);
    int64_t bits = v.kind == ScalarValue::Kind::kF64 ? std::bit_cast<int64_t>(v.f64) : v.i64;
    s.number(bits);
    if (v.kind == ScalarValue::Kind::kF64) {
      v.f64 = std::bit_cast<double>(bits);
    } else {
      v.i64 = bits;
    }
  }
  s.count(p.guards);
  for (Guard& g : p.guards) {
    s.number(g.slot);
    s.number(g.limit);
  }
  s.count(p.nests);
  for (Nest& n : p.nests) {
    if (!s.good()) return;
    nest(s, n);
  }
}

}  // namespace

void serialize_program(const Program& p, std::string* out) {
  Writer writer(out);
  uint32_t magic = kMagic, version = kProgramFormatVersion;
  writer.number(magic);
  writer.number(version);
  program(writer, const_cast<Program&>(p));  // a writer changes nothing
}

std::string serialize_program(const Program& program) {
  std::string out;
  serialize_program(program, &out);
  return out;
}

StatusOr<Program> deserialize_program(std::string_view bytes) {
  Reader reader(bytes);
  uint32_t magic = 0, version = 0;
  reader.number(magic);
  reader.number(version);
  if (!reader.good() || magic != kMagic)
    return Status(StatusCode::kDataLoss, "these bytes are no engine program");
  if (version != kProgramFormatVersion) {
    return Status(StatusCode::kFailedPrecondition,
                  "engine program of format version " + std::to_string(version) +
                      "; this build reads version " + std::to_string(kProgramFormatVersion));
  }
  Program p;
  program(reader, p);
  if (reader.good() && !reader.at_end()) reader.fail("has bytes after its end");
  if (!reader.good()) {
    return Status(StatusCode::kDataLoss, "damaged engine program: " + std::string(reader.reason()) +
                                             " (at byte " + std::to_string(reader.failed_at()) +
                                             " of " + std::to_string(bytes.size()) + ")");
  }
  if (Status s = verify(p); !s.ok()) {
    return Status(StatusCode::kDataLoss, "damaged engine program: " + std::string(s.message()));
  }
  return p;
}

}  // namespace nax
