// The parser behind parse_program: one pass of recursive descent, the first error ends it. Private
// to device/isa.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/base/status.h"
#include "device/isa/program.h"
#include "device/isa/slots.h"
#include "device/isa/text_lexer.h"

namespace nax {

class TextParser {
 public:
  explicit TextParser(std::string_view source);
  StatusOr<Program> parse();

 private:
  enum class NameKind : uint8_t { kArg, kConstant, kAxis, kTile };
  struct Entry {
    NameKind kind;
    int16_t id;
    int line;
  };
  struct Deferred {  // `elements` of a scratch argument: may name slots that come later
    ArgId arg;
    Lexer lexer;
    Token token;
  };

  // text_parse.cpp: program, declarations, nests
  bool program();
  bool header_line(const Token& keyword);
  bool arg_line();
  bool const_line();
  bool guard_line();
  bool slot_line();
  bool resolve_deferred();
  bool nest();
  bool nest_line(bool finish);
  bool axis_line(AxisRole role);
  bool tile_line();
  bool finish_block();

  // text_parse_instr.cpp: instructions
  bool instr_line(bool finish);
  bool store(Instr* out);
  bool assignment(bool finish);
  bool matmul(TileId dst, const Token& at);
  bool operands(Instr* out);
  bool operand(Operand* out);
  bool attributes(Instr* out, bool engine_and_order);
  void default_engine(Instr* instr) const;
  Lane operand_lane(const Instr& instr) const;

  // text_parse_expr.cpp: slots, accesses, literals
  // The last step of an expression: already a slot of the table (id), or not yet in it. A named
  // slot always appends its last step, so that a printed table reads back as it was; everything
  // else is interned.
  struct Step {
    Slot slot;
    SlotId id = kNoSlot;
  };
  bool expression(SlotId* out);
  bool sum(Step* out);
  bool product(Step* out);
  bool primary(Step* out);
  bool settle(Step* step);
  bool combine(SlotOp op, Step* left, Step* right);
  bool arg_dimension(bool stride, Slot* out);
  bool access(HbmAccess* out);  // from the argument's name
  bool affine(HbmAccess* out);  // from [ to ]
  bool affine_term(HbmAccess* out);
  bool index_term(HbmAccess* out);
  bool literal(ScalarValue* out);
  bool integer(int64_t* out, bool may_be_negative);
  bool is_literal() const;
  bool bounded(int64_t lowest, int64_t highest, const char* what, int64_t* out);

  // shared
  bool fail(const Token& at, std::string message);
  bool expected(std::string what);  // at the current token
  void advance() { token_ = lexer_.next(); }
  bool is_punct(std::string_view text) const {
    return token_.kind == TokenKind::kPunct && token_.text == text;
  }
  bool is_name(std::string_view text) const {
    return token_.kind == TokenKind::kName && token_.text == text;
  }
  bool punct(std::string_view text);
  bool accept(std::string_view punctuation);
  bool accept_name(std::string_view keyword);
  bool end_line();
  void skip_newlines();
  bool declare(NameKind kind, int16_t id, const Token& name);
  const Entry* find(const Token& name) const;
  bool unknown_name(const Token& name, std::initializer_list<NameKind> wanted, const char* what);
  bool named(NameKind kind, const char* what, int16_t* out);
  bool dtype(DType* out);
  SlotId slot_of(const Slot& slot);

  std::string_view source_;
  Lexer lexer_;
  Token token_;
  Status error_;
  Program program_;
  Nest* nest_ = nullptr;
  std::map<std::string, Entry, std::less<>> names_;
  std::map<std::string, std::pair<SlotId, int>, std::less<>> slot_names_;  // id and line
  std::vector<Deferred> deferred_;
  SlotBuilder* builder_ = nullptr;
  int depth_ = 0;  // of nested expressions
};

}  // namespace nax
