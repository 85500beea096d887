#include "device/isa/equal.h"
#include "device/isa/near_names.h"
#include "device/isa/opcode_info.h"
#include "device/isa/text_parser.h"

namespace nax {

bool TextParser::instr_line(bool finish) {
  // A tile's name and '=', or an argument's name and '['.
  Lexer ahead = lexer_;
  const Token following = ahead.next();
  if (following.kind == TokenKind::kPunct && following.text == "[") {
    Instr instr;
    if (!store(&instr)) return false;
    (finish ? nest_->finish : nest_->body).push_back(instr);
    return end_line();
  }
  if (following.kind == TokenKind::kPunct && following.text == "=")
    return assignment(finish) && end_line();
  return fail(
      token_,
      describe(token_) + " starts no line of a nest: expected 'tile = ...', 'argument[...] = ...'" +
          (finish ? "" : ", an axis, a tile or finish") +
          did_you_mean(token_.text, {"loop", "partition", "free", "contract", "tile", "finish"}));
}

bool TextParser::store(Instr* out) {
  out->opcode = Opcode::kDmaStore;
  out->engine = Engine::kDMA;
  if (!access(&out->hbm)) return false;
  if (accept("+=")) {
    out->hbm.accumulate = true;
  } else if (!punct("=")) {
    return false;
  }
  if (!is_name("dma_copy")) {
    return expected("dma_copy: only it writes to HBM; write the result to a tile first");
  }
  advance();
  out->src[0].kind = OperandKind::kTile;
  return punct("(") && named(NameKind::kTile, "a tile", &out->src[0].id) && punct(")") &&
         attributes(out, false);
}

bool TextParser::assignment(bool finish) {
  Instr instr;
  if (!named(NameKind::kTile, "a tile", &instr.dst) || !punct("=")) return false;
  const Token name = token_;
  if (name.kind != TokenKind::kName) return expected("an opcode");
  advance();
  if (name.text == "matmul") {
    if (finish) return fail(name, "a matmul stands in the body of a nest, not in finish");
    return matmul(instr.dst, name);
  }
  if (!opcode_from_name(name.text, &instr.opcode)) {
    return fail(name, "unknown opcode " + describe(name) + near_opcode_names(name.text));
  }
  const OpcodeInfo& info = opcode_info(instr.opcode);
  if (instr.opcode == Opcode::kPartitionReduce) instr.order = ReduceOrder::kColumn;
  if (info.fn == OpcodeFn::kSelect) instr.fn = ScalarOp::kSelect;
  if (info.fn == OpcodeFn::kScalar || info.fn == OpcodeFn::kReduce) {
    const Token fn = token_;
    if (fn.kind != TokenKind::kName) return expected("the function of " + std::string(info.name));
    if (info.fn == OpcodeFn::kScalar && !scalar_op_from_name(fn.text, &instr.fn)) {
      return fail(fn, "unknown function " + describe(fn) + near_scalar_op_names(fn.text));
    }
    if (info.fn == OpcodeFn::kReduce && !reduce_fn_from_name(fn.text, &instr.reduce)) {
      return fail(fn,
                  "unknown reduction " + describe(fn) + "; allowed: sum, prod, max, min, any, all");
    }
    advance();
  }
  if (!operands(&instr)) return false;
  default_engine(&instr);
  if (!attributes(&instr, true)) return false;
  (finish ? nest_->finish : nest_->body).push_back(instr);
  return true;
}

bool TextParser::matmul(TileId dst, const Token& at) {
  if (nest_->has_matmul) return fail(at, "a nest has at most one matmul");
  if (!nest_->body.empty())
    return fail(at, "the matmul stands before all other instructions of its nest");
  Matmul m;
  m.psum = dst;
  if (!punct("(") || !access(&m.a) || !punct(",") || !access(&m.b) || !punct(")")) return false;
  if (accept_name("op")) {
    int64_t op = 0;
    if (!bounded(0, 65535, "the op", &op)) return false;
    m.op = static_cast<uint16_t>(op);
  }
  nest_->has_matmul = true;
  nest_->matmul = m;
  return true;
}

bool TextParser::operands(Instr* out) {
  if (!punct("(")) return false;
  if (out->opcode == Opcode::kDmaLoad) return access(&out->hbm) && punct(")");
  bool first = true;
  if (out->opcode == Opcode::kIota) {
    int16_t axis = kNone;
    if (!named(NameKind::kAxis, "an axis", &axis)) return false;
    out->axis = static_cast<AxisId>(axis);
    first = false;
  }
  size_t count = 0;
  while (!is_punct(")")) {
    if (!first && !punct(",")) return false;
    first = false;
    if (out->opcode == Opcode::kPhilox && is_punct("[")) {
      if (!affine(&out->hbm)) return false;
      continue;
    }
    if (count == out->src.size()) return fail(token_, "an instruction has at most 3 operands");
    if (!operand(&out->src[count++])) return false;
  }
  return punct(")");
}

bool TextParser::operand(Operand* out) {
  if (is_literal()) {
    ScalarValue value;
    if (!literal(&value)) return false;
    out->kind = OperandKind::kConstant;
    for (size_t i = 0; i < program_.constants.size(); ++i) {
      if (!(program_.constants[i] == value)) continue;
      out->id = static_cast<int16_t>(i);
      return true;
    }
    if (program_.constants.size() >= 32767)
      return fail(token_, "too many constants: at most 32767");
    out->id = static_cast<int16_t>(program_.constants.size());
    program_.constants.push_back(value);
    return true;
  }
  if (token_.kind != TokenKind::kName)
    return expected("a tile, a scalar argument, a constant or a literal");
  const Entry* entry = find(token_);
  if (!entry || entry->kind == NameKind::kAxis) {
    return unknown_name(token_, {NameKind::kTile, NameKind::kArg, NameKind::kConstant},
                        "a tile, a scalar argument or a constant");
  }
  out->kind = entry->kind == NameKind::kTile  ? OperandKind::kTile
              : entry->kind == NameKind::kArg ? OperandKind::kScalarArg
                                              : OperandKind::kConstant;
  out->id = entry->id;
  advance();
  return true;
}

bool TextParser::attributes(Instr* out, bool engine_and_order) {
  while (token_.kind == TokenKind::kName) {
    if (accept_name("op")) {
      int64_t op = 0;
      if (!bounded(0, 65535, "the op", &op)) return false;
      out->op = static_cast<uint16_t>(op);
    } else if (accept_name("on")) {
      if (token_.kind != TokenKind::kName || !engine_from_name(token_.text, &out->engine)) {
        return expected("an engine (pe, act, dve, pool, sp or dma)");
      }
      advance();
    } else if (engine_and_order && accept_name("order")) {
      if (accept_name("row")) {
        out->order = ReduceOrder::kRow;
      } else if (accept_name("column")) {
        out->order = ReduceOrder::kColumn;
      } else if (accept_name("tree")) {
        out->order = ReduceOrder::kTree;
      } else {
        return expected("row, column or tree");
      }
    } else if (engine_and_order && accept_name("continue")) {
      out->start = false;
    } else {
      return expected(engine_and_order ? "on, op, order, continue or the end of the line"
                                       : "on, op or the end of the line");
    }
  }
  return true;
}

Lane TextParser::operand_lane(const Instr& instr) const {
  // The condition of a select says nothing about the type it computes in.
  for (size_t i = instr.opcode == Opcode::kSelect ? 1 : 0; i < instr.src.size(); ++i)
    if (instr.src[i].kind == OperandKind::kTile)
      return lane_of(nest_->tiles[instr.src[i].id].dtype);
  return lane_of(nest_->tiles[instr.dst].dtype);
}

void TextParser::default_engine(Instr* instr) const {
  instr->engine = engine_for(instr->opcode, instr->fn, operand_lane(*instr));
}

}  // namespace nax
