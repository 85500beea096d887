// Random programs over all dtypes, shapes and access patterns against the reference. NAX_TEST_SEED replays one seed.
#include <cstdlib>

#include "device/isa/opcode_info.h"
#include "tests/device/interpreter/launch.h"

namespace nax::testing {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kF32, DType::kF32, DType::kBF16, DType::kF16, DType::kF64, DType::kI64,
                             DType::kI32, DType::kI16, DType::kI8,  DType::kU8,   DType::kBool};

// Functions by lane that every dtype of the lane has.
constexpr ScalarOp kFloatOps[] = {ScalarOp::kNegative, ScalarOp::kAbs,      ScalarOp::kSquare,  ScalarOp::kSqrt,    ScalarOp::kReciprocal,
                                  ScalarOp::kExp,      ScalarOp::kTanh,     ScalarOp::kAdd,     ScalarOp::kSubtract, ScalarOp::kMultiply,
                                  ScalarOp::kDivide,   ScalarOp::kMaximum,  ScalarOp::kMinimum, ScalarOp::kClamp,    ScalarOp::kAdd,
                                  ScalarOp::kMultiply, ScalarOp::kRelu,     ScalarOp::kFmod};
constexpr ScalarOp kIntOps[] = {ScalarOp::kNegative, ScalarOp::kAbs, ScalarOp::kSquare, ScalarOp::kAdd, ScalarOp::kSubtract, ScalarOp::kMultiply,
                                ScalarOp::kMaximum, ScalarOp::kMinimum, ScalarOp::kBitwiseAnd, ScalarOp::kBitwiseXor, ScalarOp::kFloorDivide,
                                ScalarOp::kRemainder, ScalarOp::kClamp};
constexpr ScalarOp kCompareOps[] = {ScalarOp::kEqual, ScalarOp::kLess, ScalarOp::kGreaterEqual, ScalarOp::kNotEqual, ScalarOp::kLogicalAnd};

enum class Kind { kPointwise, kRows, kColumns };

class Maker {
 public:
  explicit Maker(uint64_t seed) : rng_(seed) {}

  void run() {
    p_.name = "random";
    p_.op_count = static_cast<uint16_t>(1 + below(3));
    kind_ = static_cast<Kind>(below(3));
    make_axes();
    const int loads = 1 + below(4);
    p_.nests.emplace_back();
    for (const Axis& a : axes_) p_.nests[0].axes.push_back(a);
    for (int i = 0; i < loads; ++i) add_load();
    const int ops = 1 + below(9);
    for (int i = 0; i < ops; ++i) {
      add_op();
      // Loads and stores in between: of new memory, or of what is loaded or stored already.
      if (chance(15)) add_store(&nest().body, pick_any());
      if (chance(15)) add_load();
    }
    if (kind_ == Kind::kColumns) add_columns();
    const int stores = 1 + below(3);
    for (int i = 0; i < stores; ++i) add_store(&nest().body, pick_any());
    // A scalar argument at the end, shared by all scalar operands of that kind.
    Launch launch(p_);
    for (const View& v : views_) {
      if (v.same >= 0) launch.same_as(v.arg, v.same);
      else launch.view(v.arg, v.sizes, v.strides);
    }
    for (auto [arg, value] : scalars_) launch.scalar_int(arg, value);
    launch.fill(rng_, below(3) == 0 ? 0.05 : 0.0);
    check(p_, launch);
  }

 private:
  struct View {
    int arg;
    std::vector<int64_t> sizes, strides;
    int same;
  };

  int below(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  Nest& nest() { return p_.nests[0]; }
  SlotId slot(Slot s) {
    p_.slots.push_back(s);
    return static_cast<SlotId>(p_.slots.size() - 1);
  }
  SlotId constant(int64_t v) { return slot({SlotOp::kConst, 0, 0, v}); }
  DType dtype() { return kDTypes[below(12)]; }
  uint16_t op() { return static_cast<uint16_t>(below(p_.op_count)); }

  void make_axes() {
    constexpr int kSizes[] = {1, 2, 3, 5, 7, 8, 16, 31, 33, 64, 129, 200};
    constexpr int kLong[] = {511, 512, 513, 1024, 1025, 2049, 3000};
    int64_t points = 1;
    const int64_t most = chance(5) ? 400000 : 20000;
    const auto add = [&](AxisRole role, LoopKind kind, bool may_be_long) {
      int64_t n = may_be_long && chance(40) ? kLong[below(7)] : kSizes[below(12)];
      while (points * n > most) n = (n + 1) / 2 == n ? 1 : (n + 1) / 2;
      points *= n;
      Axis a;
      a.role = role;
      a.kind = kind;
      a.extent = constant(n);
      axes_.push_back(a);
      extents_.push_back(n);
    };
    const int frees = kind_ == Kind::kPointwise ? below(4) : 1 + below(3);
    const bool partition = kind_ == Kind::kColumns || chance(75);
    const int loops = below(3);
    // Long axes first in the budget: the last free one, then the partition.
    for (int i = 0; i < loops; ++i) add(AxisRole::kLoop, LoopKind::kParallel, false);
    if (partition) add(AxisRole::kPartition, kind_ == Kind::kColumns ? LoopKind::kCarried : LoopKind::kParallel, chance(30));
    for (int i = 0; i < frees; ++i) add(AxisRole::kFree, LoopKind::kParallel, i + 1 == frees);
    split_axis();
  }

  // Now and then one axis is the inner part of another, with a tail.
  void split_axis() {
    if (!chance(20) || axes_.size() < 2) return;
    const size_t inner = 1 + static_cast<size_t>(below(static_cast<int>(axes_.size()) - 1));
    const size_t outer = static_cast<size_t>(below(static_cast<int>(inner)));
    if (axes_[outer].role == AxisRole::kFree) return;
    int frees = 0;
    for (const Axis& a : axes_) frees += a.role == AxisRole::kFree;
    if (axes_[inner].role == AxisRole::kFree && frees != 1) return;
    if (kind_ == Kind::kColumns && axes_[inner].role != AxisRole::kPartition) return;
    axes_[inner].split_outer = static_cast<AxisId>(outer);
    axes_[inner].split_limit = constant(static_cast<int64_t>(rng_() % static_cast<uint64_t>(extents_[outer] * extents_[inner] + 1)));
  }

  bool spans(TileShape shape, size_t axis) const {
    switch (axes_[axis].role) {
      case AxisRole::kPartition: return shape == TileShape::kFull || shape == TileShape::kRow;
      case AxisRole::kFree: return shape == TileShape::kFull || shape == TileShape::kColumn;
      default: return true;
    }
  }

  // An access with random strides; stores hit each address once.
  HbmAccess access(DType t, TileShape shape, bool store) {
    std::vector<size_t> order(axes_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (chance(35)) std::shuffle(order.begin(), order.end(), rng_);
    View v;
    v.arg = static_cast<int>(p_.args.size());
    v.same = -1;
    v.sizes.assign(axes_.size(), 1);
    v.strides.assign(axes_.size(), 0);
    int64_t step = chance(15) ? 2 : 1;
    for (size_t k = order.size(); k-- > 0;) {
      const size_t a = order[k];
      if (!spans(shape, a)) continue;
      v.sizes[a] = extents_[a];
      if (!store && chance(20)) continue;  // broadcast
      v.strides[a] = chance(8) ? -step : step;
      step *= extents_[a] + (chance(10) ? 3 : 0);
    }
    ArgDecl d;
    d.dtype = t;
    d.rank = static_cast<uint8_t>(axes_.size());
    d.read = !store;
    d.written = store;
    HbmAccess h;
    h.arg = static_cast<ArgId>(v.arg);
    for (size_t a = 0; a < axes_.size(); ++a) {
      if (!spans(shape, a)) continue;
      if ((v.strides[a] == 0 || v.strides[a] == 1) && chance(50)) h.strides[a] = v.strides[a] == 0 ? kNoSlot : constant(1);
      else h.strides[a] = slot({SlotOp::kArgStride, h.arg, static_cast<int16_t>(a), 0});
    }
    if (chance(10)) {
      h.offset = constant(5);
      // The view is placed so that the offset stays inside the guards.
    }
    p_.args.push_back(d);
    views_.push_back(v);
    return h;
  }

  TileId tile(DType t, TileShape shape) {
    Tile x;
    x.dtype = t;
    x.shape = shape;
    nest().tiles.push_back(x);
    return static_cast<TileId>(nest().tiles.size() - 1);
  }
  const Tile& info(TileId t) { return nest().tiles[static_cast<size_t>(t)]; }
  void push(Instr i) {
    i.op = op();
    nest().body.push_back(i);
    if (i.dst != kNone) ready_.push_back(i.dst);
  }

  void add_load() {
    Instr i;
    i.opcode = Opcode::kDmaLoad;
    i.engine = Engine::kDMA;
    const TileShape shape = chance(70) ? TileShape::kFull : chance(70) ? TileShape::kRow : TileShape::kOne;
    if (chance(20)) {
      for (const Instr& old : nest().body) {
        const TileId t = old.opcode == Opcode::kDmaLoad ? old.dst : old.opcode == Opcode::kDmaStore ? old.src[0].id : kNone;
        if (t == kNone || info(t).shape != shape || chance(30)) continue;
        i.hbm = old.hbm;
        p_.args[static_cast<size_t>(i.hbm.arg)].read = true;
        const DType memory = p_.args[static_cast<size_t>(i.hbm.arg)].dtype;
        i.dst = tile(chance(70) ? memory : dtype(), shape);
        push(i);
        return;
      }
    }
    const DType memory = dtype();
    i.dst = tile(chance(70) ? memory : dtype(), shape);
    i.hbm = access(memory, shape, false);
    push(i);
  }

  TileId pick_any() { return ready_[static_cast<size_t>(below(static_cast<int>(ready_.size())))]; }
  // A tile of a lane that broadcasts to `shape`, or kNone.
  TileId pick(Lane lane, TileShape shape) {
    std::vector<TileId> fit;
    for (TileId t : ready_) {
      const TileShape s = info(t).shape;
      const bool ok = s == shape || s == TileShape::kOne || (s == TileShape::kRow && shape == TileShape::kFull);
      if (ok && lane_of(info(t).dtype) == lane) fit.push_back(t);
    }
    return fit.empty() ? kNone : fit[static_cast<size_t>(below(static_cast<int>(fit.size())))];
  }

  Operand scalar() {
    const int64_t v = below(9) - 4;
    if (chance(50)) {
      p_.constants.push_back(chance(50) ? ScalarValue::from_i64(v) : ScalarValue::from_f64(static_cast<double>(v) * 0.75));
      return {OperandKind::kConstant, static_cast<int16_t>(p_.constants.size() - 1)};
    }
    ArgDecl d;
    d.kind = ArgKind::kScalar;
    d.dtype = DType::kI64;
    p_.args.push_back(d);
    scalars_.push_back({static_cast<int>(p_.args.size() - 1), v});
    return {OperandKind::kScalarArg, static_cast<int16_t>(p_.args.size() - 1)};
  }

  DType dtype_of_lane(Lane lane) {
    for (;;) {
      const DType t = dtype();
      if (lane_of(t) == lane) return t;
    }
  }

  void add_op() {
    const TileId first = pick_any();
    const TileShape shape = info(first).shape;
    const Lane lane = lane_of(info(first).dtype);
    Instr i;
    i.engine = Engine::kPOOL;
    if (kind_ == Kind::kRows && shape == TileShape::kFull && chance(25)) {
      add_reduction(first, lane);
      return;
    }
    const int what = below(100);
    if (what < 20) {  // conversion, perhaps with a broadcast
      i.opcode = Opcode::kTensorCopy;
      i.engine = Engine::kDVE;
      i.src[0] = {OperandKind::kTile, first};
      i.dst = tile(dtype(), shape == TileShape::kRow && chance(30) ? TileShape::kFull : shape);
      push(i);
      return;
    }
    if (what < 24) {
      i.opcode = Opcode::kMemset;
      i.engine = Engine::kDVE;
      i.src[0] = scalar();
      i.dst = tile(dtype(), chance(50) ? TileShape::kFull : TileShape::kRow);
      push(i);
      return;
    }
    if (what < 30) {
      std::vector<int> along;
      for (size_t a = 0; a < axes_.size(); ++a)
        if (axes_[a].role != AxisRole::kLoop && spans(shape, a)) along.push_back(static_cast<int>(a));
      if (!along.empty()) {
        i.opcode = Opcode::kIota;
        i.axis = static_cast<AxisId>(along[static_cast<size_t>(below(static_cast<int>(along.size())))]);
        i.src[0] = scalar();
        i.src[1] = scalar();
        i.dst = tile(dtype(), shape);
        push(i);
        return;
      }
    }
    if (what < 38) {
      const TileId condition = pick(Lane::kI32, shape);
      if (condition != kNone) {
        i.opcode = Opcode::kSelect;
        i.fn = ScalarOp::kSelect;
        i.src[0] = {OperandKind::kTile, condition};
        i.src[1] = {OperandKind::kTile, first};
        const TileId other = pick(lane, shape);
        i.src[2] = chance(50) ? Operand{OperandKind::kTile, other} : scalar();
        i.dst = tile(dtype_of_lane(lane), shape);
        push(i);
        return;
      }
    }
    i.opcode = Opcode::kPointwise;
    const bool floating = lane == Lane::kF32 || lane == Lane::kF64;
    const bool compares = chance(20);
    i.fn = compares ? kCompareOps[below(5)] : floating ? kFloatOps[below(18)] : kIntOps[below(13)];
    const ScalarOpInfo& fn = scalar_op_info(i.fn);
    if (!fn.allows(lane)) return;
    i.src[0] = {OperandKind::kTile, first};
    for (int k = 1; k < fn.arity; ++k) {
      const TileId t = pick(lane, shape);
      i.src[static_cast<size_t>(k)] = t != kNone && chance(65) ? Operand{OperandKind::kTile, t} : scalar();
    }
    if (fn.arity == 2 && chance(30)) std::swap(i.src[0], i.src[1]);
    i.dst = tile(fn.result == ScalarResult::kBool ? (chance(80) ? DType::kBool : dtype_of_lane(Lane::kI32)) : dtype_of_lane(lane), shape);
    push(i);
  }

  void add_reduction(TileId source, Lane lane) {
    Instr i;
    i.opcode = chance(15) && lane != Lane::kI32 ? Opcode::kScan : Opcode::kTensorReduce;
    i.engine = Engine::kPOOL;
    i.reduce = static_cast<ReduceFn>(below(lane == Lane::kI32 && i.opcode != Opcode::kScan ? 6 : 4));
    if (i.opcode == Opcode::kTensorReduce && chance(10)) i.order = ReduceOrder::kTree;
    i.src[0] = {OperandKind::kTile, source};
    i.dst = tile(i.opcode == Opcode::kScan ? dtype_of_lane(lane) : dtype_of_lane(lane), i.opcode == Opcode::kScan ? TileShape::kFull : TileShape::kRow);
    push(i);
  }

  void add_columns() {
    const size_t sources = ready_.size();
    int made = 0;
    for (int tries = 0; tries < 12 && made < 3; ++tries) {
      const TileId source = ready_[static_cast<size_t>(below(static_cast<int>(sources)))];
      const TileShape s = info(source).shape;
      if (s == TileShape::kOne) continue;
      const Lane lane = lane_of(info(source).dtype);
      Instr i;
      i.opcode = Opcode::kPartitionReduce;
      i.engine = Engine::kPOOL;
      i.reduce = static_cast<ReduceFn>(below(lane == Lane::kI32 ? 6 : 4));
      i.order = chance(15) ? ReduceOrder::kTree : ReduceOrder::kColumn;
      i.src[0] = {OperandKind::kTile, source};
      i.dst = tile(dtype_of_lane(lane), s == TileShape::kFull ? TileShape::kColumn : TileShape::kOne);
      i.op = op();
      nest().body.push_back(i);
      ++made;
      // Through a conversion or as it is, to memory.
      TileId out = i.dst;
      if (chance(50)) {
        Instr c;
        c.opcode = Opcode::kTensorCopy;
        c.engine = Engine::kDVE;
        c.src[0] = {OperandKind::kTile, out};
        out = tile(dtype(), info(i.dst).shape);
        c.dst = out;
        c.op = op();
        nest().finish.push_back(c);
      }
      add_store(&nest().finish, out);
    }
  }

  void add_store(std::vector<Instr>* list, TileId t) {
    Instr i;
    i.opcode = Opcode::kDmaStore;
    i.engine = Engine::kDMA;
    i.src[0] = {OperandKind::kTile, t};
    const TileShape shape = info(t).shape;
    // In place of a load of the same pattern, now and then: by the same argument, or by a second one on the same buffer.
    if (list == &nest().body && shape == TileShape::kFull && chance(25)) {
      for (size_t k = 0; k < nest().body.size(); ++k) {
        const HbmAccess h = nest().body[k].hbm;
        if (nest().body[k].opcode != Opcode::kDmaLoad || info(nest().body[k].dst).shape != shape) continue;
        const View* view = nullptr;
        for (const View& v : views_)
          if (v.arg == h.arg) view = &v;
        bool injective = true;
        for (size_t a = 0; a < axes_.size(); ++a) injective &= extents_[a] == 1 || view->strides[a] != 0;
        if (!injective) continue;
        i.hbm = h;
        if (chance(50)) {
          p_.args[static_cast<size_t>(h.arg)].written = true;
        } else {
          View second = *view;
          second.same = view->same >= 0 ? view->same : view->arg;
          second.arg = static_cast<int>(p_.args.size());
          ArgDecl d = p_.args[static_cast<size_t>(h.arg)];
          d.read = false;
          d.written = true;
          p_.args.push_back(d);
          views_.push_back(second);
          i.hbm.arg = static_cast<ArgId>(second.arg);
        }
        i.op = op();
        list->push_back(i);
        return;
      }
    }
    i.hbm = access(chance(70) ? info(t).dtype : dtype(), shape, true);
    i.op = op();
    list->push_back(i);
  }

  std::mt19937_64 rng_;
  Kind kind_ = Kind::kPointwise;
  Program p_;
  std::vector<Axis> axes_;
  std::vector<int64_t> extents_;
  std::vector<View> views_;
  std::vector<std::pair<int, int64_t>> scalars_;
  std::vector<TileId> ready_;
};

TEST_CASE("random programs") {
  const char* one = std::getenv("NAX_TEST_SEED");
  const char* many = std::getenv("NAX_TEST_SEEDS");
  const uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  const uint64_t count = one != nullptr ? 1 : many != nullptr ? std::strtoull(many, nullptr, 10) : 400;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    Maker(seed).run();
  }
}

}  // namespace
}  // namespace nax::testing
