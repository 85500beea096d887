#include "fusion/program_key.h"

namespace nax {
namespace {

class Writer {
 public:
  explicit Writer(std::string* out) : out_(*out) {}
  void number(int64_t v) {
    // Zigzag, so that the common -1 is one byte.
    auto u = (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63);
    while (u >= 0x80) out_.push_back(static_cast<char>(u | 0x80)), u >>= 7;
    out_.push_back(static_cast<char>(u));
  }
  template <class E>
    requires std::is_enum_v<E>
  void number(E v) {
    number(static_cast<int64_t>(v));
  }
  void text(const std::string& s) {
    number(static_cast<int64_t>(s.size()));
    out_ += s;
  }
  void access(const HbmAccess& h) {
    number(h.arg);
    number(h.offset);
    for (const SlotId s : h.strides) number(s);
    number(h.index);
    number(h.index_stride);
    number(h.index_size);
    number(h.accumulate);
  }
  void instr(const Instr& i) {
    number(i.opcode);
    number(i.engine);
    number(i.fn);
    number(i.reduce);
    number(i.order);
    number(i.axis);
    number(i.dst);
    for (const Operand& o : i.src) number(o.kind), number(o.id);
    if (i.opcode == Opcode::kDmaLoad || i.opcode == Opcode::kDmaStore ||
        i.opcode == Opcode::kPhilox)
      access(i.hbm);
    number(i.start);
    number(i.op);
  }

 private:
  std::string& out_;
};

}  // namespace

void append_program_key(const Program& p, std::string* out) {
  Writer w(out);
  w.text("nax-program-1");
  w.text(p.target);
  w.number(p.op_count);
  w.number(static_cast<int64_t>(p.args.size()));
  for (const ArgDecl& a : p.args) {
    w.number(a.kind);
    w.number(a.dtype);
    w.number(a.rank);
    w.number(a.read);
    w.number(a.written);
    w.number(a.scratch_elements);
  }
  w.number(static_cast<int64_t>(p.slots.size()));
  for (const Slot& s : p.slots) w.number(s.op), w.number(s.a), w.number(s.b), w.number(s.imm);
  w.number(static_cast<int64_t>(p.constants.size()));
  for (const ScalarValue& c : p.constants) w.number(c.kind), w.number(c.i64);
  w.number(static_cast<int64_t>(p.guards.size()));
  for (const Guard& g : p.guards) w.number(g.slot), w.number(g.limit);
  w.number(static_cast<int64_t>(p.nests.size()));
  for (const Nest& n : p.nests) {
    w.number(static_cast<int64_t>(n.axes.size()));
    for (const Axis& a : n.axes) {
      w.number(a.role);
      w.number(a.kind);
      w.number(a.extent);
      w.number(a.split_outer);
      w.number(a.split_limit);
      w.number(a.tile);
    }
    w.number(static_cast<int64_t>(n.tiles.size()));
    for (const Tile& t : n.tiles) w.number(t.space), w.number(t.shape), w.number(t.dtype);
    w.number(n.has_matmul);
    if (n.has_matmul) {
      w.access(n.matmul.a);
      w.access(n.matmul.b);
      w.number(n.matmul.psum);
      w.number(n.matmul.op);
    }
    w.number(static_cast<int64_t>(n.body.size()));
    for (const Instr& i : n.body) w.instr(i);
    w.number(static_cast<int64_t>(n.finish.size()));
    for (const Instr& i : n.finish) w.instr(i);
  }
}

}  // namespace nax
