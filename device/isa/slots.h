// Slots: the int64 table of a program, evaluated once per launch, and the builder that lowering
// fills it with. Arithmetic saturates at the int64 limits instead of wrapping, so a guard on a
// product of huge sizes fails as it should. Thread: the free functions may be called from any
// thread; a SlotBuilder belongs to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "device/isa/program.h"

namespace nax {

// One step of the table: a + b, ceil(a / b) ...; a division by zero yields 0. Only for the
// operators of two slots.
int64_t slot_arithmetic(SlotOp op, int64_t a, int64_t b);

// Writes program.slots.size() values. The program must have passed verify(); `row` has one value
// per argument.
void evaluate_slots(const Program& program, const ArgValue* row, int64_t* out);

// Whether every guard holds for evaluated slots.
bool guards_hold(const Program& program, const int64_t* slots);

// Interns slots: equal expressions get equal ids, constants are folded, x + 0, x * 1 and the like
// vanish. Appends to the given table, which must outlive the builder and may be non-empty. kNoSlot
// as an operand counts as 0.
class SlotBuilder {
 public:
  explicit SlotBuilder(std::vector<Slot>* slots);

  SlotId constant(int64_t value);
  SlotId size(ArgId arg, int dim);
  SlotId stride(ArgId arg, int dim);
  SlotId add(SlotId a, SlotId b);
  SlotId sub(SlotId a, SlotId b);
  SlotId mul(SlotId a, SlotId b);
  SlotId ceil_div(SlotId a, SlotId b);
  SlotId floor_div(SlotId a, SlotId b);
  SlotId min(SlotId a, SlotId b);
  SlotId max(SlotId a, SlotId b);

  // Product of many; 1 for none.
  SlotId product(const std::vector<SlotId>& factors);

  // The slot as it stands, interned but not folded: for the text form, which keeps what was
  // written.
  SlotId exact(const Slot& slot) { return intern(slot); }
  // Makes a slot that was appended by hand known to later calls.
  void note(SlotId id) { ids_.emplace((*slots_)[id], id); }

  // The value, if it is known without arguments; kNoSlot is 0.
  std::optional<int64_t> constant_value(SlotId slot) const;
  // The table is full (32767 slots): later calls return kNoSlot, and the program must not be used.
  bool overflowed() const { return overflowed_; }

 private:
  struct SlotHasher {
    size_t operator()(const Slot& s) const;
  };
  struct SlotEqual {
    bool operator()(const Slot& x, const Slot& y) const;
  };
  SlotId intern(const Slot& slot);
  SlotId binary(SlotOp op, SlotId a, SlotId b);

  std::vector<Slot>* slots_;
  std::unordered_map<Slot, SlotId, SlotHasher, SlotEqual> ids_;
  bool overflowed_ = false;
};

}  // namespace nax
