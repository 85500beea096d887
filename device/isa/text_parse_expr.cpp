#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "device/isa/near_names.h"
#include "device/isa/text_parser.h"

namespace nax {
namespace {

constexpr int kMaxDepth = 64;  // of parentheses: bounds the recursion

struct SlotFunction {
  std::string_view name;
  SlotOp op;
};
constexpr SlotFunction kFunctions[] = {{"ceil_div", SlotOp::kCeilDiv},
                                       {"floor_div", SlotOp::kFloorDiv},
                                       {"min", SlotOp::kMin},
                                       {"max", SlotOp::kMax}};

}  // namespace

bool TextParser::integer(int64_t* out, bool may_be_negative) {
  const Token first = token_;
  const bool negative = may_be_negative && accept("-");
  if (token_.kind != TokenKind::kInteger) return expected("an integer");
  const bool hex = token_.text.size() > 2 && token_.text.substr(0, 2) == "0x";
  const std::string digits = (negative ? "-" : "") + std::string(token_.text.substr(hex ? 2 : 0));
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), *out, hex ? 16 : 10);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return fail(first, describe(token_) + " is not an integer of 64 bits");
  }
  advance();
  return true;
}

bool TextParser::bounded(int64_t lowest, int64_t highest, const char* what, int64_t* out) {
  const Token at = token_;
  if (!integer(out, true)) return false;
  if (*out < lowest || *out > highest) {
    return fail(at, std::string(what) + " is " + std::to_string(*out) + ", allowed are " +
                        std::to_string(lowest) + " to " + std::to_string(highest));
  }
  return true;
}

bool TextParser::is_literal() const {
  return token_.kind == TokenKind::kInteger || token_.kind == TokenKind::kFloat || is_punct("-") ||
         is_name("inf") || is_name("nan") || is_name("true") || is_name("false");
}

bool TextParser::literal(ScalarValue* out) {
  const Token first = token_;
  if (is_name("true") || is_name("false")) {
    out->kind = ScalarValue::Kind::kBool;
    out->i64 = is_name("true") ? 1 : 0;
    advance();
    return true;
  }
  if (accept_name("nan")) {
    *out = ScalarValue::from_f64(std::numeric_limits<double>::quiet_NaN());
    if (!is_punct("(")) return true;
    advance();
    uint64_t bits = 0;
    const std::string_view text = token_.text;
    if (token_.kind != TokenKind::kInteger || text.size() < 3 || text.substr(0, 2) != "0x") {
      return expected("the NaN's bits as 0x...");
    }
    const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    if (error != std::errc() || end != text.data() + text.size() ||
        !std::isnan(std::bit_cast<double>(bits))) {
      return fail(token_, describe(token_) + " is not the bits of a NaN");
    }
    advance();
    *out = ScalarValue::from_f64(std::bit_cast<double>(bits));
    return punct(")");
  }
  const bool negative = accept("-");
  if (accept_name("inf")) {
    *out = ScalarValue::from_f64(negative ? -std::numeric_limits<double>::infinity()
                                          : std::numeric_limits<double>::infinity());
    return true;
  }
  if (token_.kind == TokenKind::kFloat) {
    const std::string digits = (negative ? "-" : "") + std::string(token_.text);
    double value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return fail(first, describe(token_) + " is not a number that a double can hold");
    }
    advance();
    *out = ScalarValue::from_f64(value);
    return true;
  }
  if (token_.kind != TokenKind::kInteger)
    return expected("a literal (2, 2.5, 1e-6, inf, nan, true, false)");
  // The sign belongs to the digits: -9223372036854775808 is one number.
  const Token digits = token_;
  int64_t value = 0;
  if (!negative) {
    if (!integer(&value, false)) return false;
  } else {
    const std::string text = "-" + std::string(digits.text);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return fail(first, describe(digits) + " is not an integer of 64 bits");
    }
    advance();
  }
  *out = ScalarValue::from_i64(value);
  return true;
}

SlotId TextParser::slot_of(const Slot& slot) { return builder_->exact(slot); }

bool TextParser::settle(Step* step) {
  if (step->id == kNoSlot) step->id = slot_of(step->slot);
  return step->id != kNoSlot || fail(token_, "too many slots: a program has at most 32767");
}

bool TextParser::combine(SlotOp op, Step* left, Step* right) {
  if (!settle(left) || !settle(right)) return false;
  *left = {{op, left->id, right->id, 0}, kNoSlot};
  return true;
}

bool TextParser::expression(SlotId* out) {
  Step step;
  if (!sum(&step) || !settle(&step)) return false;
  *out = step.id;
  return true;
}

bool TextParser::sum(Step* out) {
  if (++depth_ > kMaxDepth)
    return fail(token_, "expression is nested too deeply (more than 64 levels)");
  if (!product(out)) return false;
  while (is_punct("+") || is_punct("-")) {
    const SlotOp op = is_punct("+") ? SlotOp::kAdd : SlotOp::kSub;
    advance();
    Step right;
    if (!product(&right) || !combine(op, out, &right)) return false;
  }
  --depth_;
  return true;
}

bool TextParser::product(Step* out) {
  if (!primary(out)) return false;
  while (accept("*")) {
    Step right;
    if (!primary(&right) || !combine(SlotOp::kMul, out, &right)) return false;
  }
  return true;
}

bool TextParser::primary(Step* out) {
  const Token first = token_;
  if (first.kind == TokenKind::kInteger || is_punct("-")) {
    int64_t value = 0;
    if (!integer(&value, true)) return false;
    *out = {{SlotOp::kConst, 0, 0, value}, kNoSlot};
    return true;
  }
  if (first.kind == TokenKind::kSlot) {
    const auto it = slot_names_.find(first.text);
    if (it == slot_names_.end()) {
      std::vector<std::string_view> names;
      for (const auto& [name, entry] : slot_names_) names.push_back(name);
      return fail(first, "unknown slot " + describe(first) + did_you_mean(first.text, names));
    }
    out->id = it->second.first;
    advance();
    return true;
  }
  if (accept("(")) return sum(out) && punct(")");
  if (first.kind != TokenKind::kName) {
    return expected("a slot expression (an integer, %name, size(arg, dim), ceil_div(a, b) ...)");
  }
  if (first.text == "size" || first.text == "stride") {
    advance();
    out->id = kNoSlot;
    return arg_dimension(first.text == "stride", &out->slot);
  }
  for (const SlotFunction& f : kFunctions) {
    if (first.text != f.name) continue;
    advance();
    SlotId a = kNoSlot, b = kNoSlot;
    if (!punct("(") || !expression(&a) || !punct(",") || !expression(&b) || !punct(")"))
      return false;
    *out = {{f.op, a, b, 0}, kNoSlot};
    return true;
  }
  return fail(first, "unknown slot function " + describe(first) +
                         did_you_mean(first.text,
                                      {"ceil_div", "floor_div", "min", "max", "size", "stride"}));
}

bool TextParser::arg_dimension(bool stride, Slot* out) {
  int16_t arg = kNone;
  int64_t dim = 0;
  if (!punct("(") || !named(NameKind::kArg, "an argument", &arg) || !punct(",")) return false;
  if (!bounded(0, kMaxRank - 1, "a dimension", &dim) || !punct(")")) return false;
  *out = {stride ? SlotOp::kArgStride : SlotOp::kArgSize, arg, static_cast<int16_t>(dim), 0};
  return true;
}

bool TextParser::access(HbmAccess* out) {
  return named(NameKind::kArg, "an argument", &out->arg) && affine(out);
}

bool TextParser::affine(HbmAccess* out) {
  if (!punct("[")) return false;
  if (accept("]")) return true;
  do {
    if (!affine_term(out)) return false;
  } while (accept("+"));
  if (!is_punct("]")) return expected("'+' or ']'");
  advance();
  return true;
}

bool TextParser::affine_term(HbmAccess* out) {
  if (is_name("index")) return index_term(out);
  int axis = kNone;
  SlotId factor = kNoSlot;
  do {
    const Entry* entry = token_.kind == TokenKind::kName ? find(token_) : nullptr;
    if (entry && entry->kind == NameKind::kAxis) {
      if (axis != kNone) return expected("a stride: one axis a term");
      if (out->strides[entry->id] != kNoSlot) {
        return fail(token_,
                    "the axis " + describe(token_) + " already has a stride in this access");
      }
      axis = entry->id;
      advance();
      continue;
    }
    const bool function = token_.kind == TokenKind::kName && !entry;
    if (function && token_.text != "size" && token_.text != "stride" && token_.text != "min" &&
        token_.text != "max" && token_.text != "ceil_div" && token_.text != "floor_div") {
      return unknown_name(token_, {NameKind::kAxis}, "an axis of this nest");
    }
    if (entry) return unknown_name(token_, {NameKind::kAxis}, "an axis of this nest");
    Step next;
    if (!primary(&next) || !settle(&next)) return false;
    factor = factor == kNoSlot ? next.id : slot_of({SlotOp::kMul, factor, next.id, 0});
  } while (accept("*"));
  if (axis != kNone) {
    out->strides[axis] = factor != kNoSlot ? factor : slot_of({SlotOp::kConst, 0, 0, 1});
  } else {
    out->offset = out->offset == kNoSlot ? factor : slot_of({SlotOp::kAdd, out->offset, factor, 0});
  }
  if (builder_->overflowed()) return fail(token_, "too many slots: a program has at most 32767");
  return true;
}

bool TextParser::index_term(HbmAccess* out) {
  if (out->index != kNone) return fail(token_, "an access has at most one index tile");
  advance();
  return punct("(") && named(NameKind::kTile, "a tile", &out->index) && punct(",") &&
         expression(&out->index_stride) && punct(",") && expression(&out->index_size) && punct(")");
}

}  // namespace nax
