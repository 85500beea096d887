#include <algorithm>

#include "device/isa/near_names.h"
#include "device/isa/opcode_info.h"
#include "device/isa/text.h"
#include "device/isa/text_parser.h"

namespace nax {
namespace {

constexpr std::string_view kReserved[] = {
    "program",    "target", "ops",      "arg",  "const",  "guard",    "nest",     "loop",
    "partition",  "free",   "contract", "tile", "finish", "rank",     "read",     "write",
    "view",       "scalar", "scratch",  "seed", "split",  "of",       "carried",  "parallel",
    "sequential", "psum",   "op",       "on",   "order",  "continue", "elements", "index",
    "inf",        "nan",    "true",     "false"};

bool is_reserved(std::string_view name) {
  return std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
}

constexpr const char* kKindNames[] = {"argument", "constant", "axis", "tile"};

}  // namespace

StatusOr<Program> parse_program(std::string_view text) { return TextParser(text).parse(); }

TextParser::TextParser(std::string_view source) : source_(source), lexer_(source) {}

StatusOr<Program> TextParser::parse() {
  SlotBuilder builder(&program_.slots);
  builder_ = &builder;
  const bool ok = program();
  builder_ = nullptr;
  if (!ok) return std::move(error_);
  return std::move(program_);
}

bool TextParser::fail(const Token& at, std::string message) {
  if (error_.ok()) {
    error_ = Status(StatusCode::kInvalidArgument,
                    "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) +
                        ": " + message,
                    ErrorReason::kParseFailed);
  }
  return false;
}

bool TextParser::expected(std::string what) {
  return fail(token_, "expected " + what + ", found " + describe(token_));
}

bool TextParser::punct(std::string_view text) {
  if (!is_punct(text)) return expected("'" + std::string(text) + "'");
  advance();
  return true;
}

bool TextParser::accept(std::string_view punctuation) {
  if (!is_punct(punctuation)) return false;
  advance();
  return true;
}

bool TextParser::accept_name(std::string_view keyword) {
  if (!is_name(keyword)) return false;
  advance();
  return true;
}

bool TextParser::end_line() {
  if (token_.kind == TokenKind::kEnd || is_punct("}")) return true;
  if (token_.kind != TokenKind::kNewline) return expected("the end of the line");
  skip_newlines();
  return true;
}

void TextParser::skip_newlines() {
  while (token_.kind == TokenKind::kNewline) advance();
}

bool TextParser::declare(NameKind kind, int16_t id, const Token& name) {
  const std::string text(name.text);
  if (is_reserved(name.text))
    return fail(name, "'" + text + "' is a reserved word and cannot name anything");
  const auto [it, fresh] = names_.emplace(text, Entry{kind, id, name.line});
  if (!fresh) {
    return fail(name, "duplicate name '" + text + "': already the " +
                          kKindNames[static_cast<int>(it->second.kind)] + " of line " +
                          std::to_string(it->second.line));
  }
  return true;
}

const TextParser::Entry* TextParser::find(const Token& name) const {
  const auto it = names_.find(name.text);
  return it == names_.end() ? nullptr : &it->second;
}

bool TextParser::unknown_name(const Token& name, std::initializer_list<NameKind> wanted,
                              const char* what) {
  std::vector<std::string_view> candidates;
  for (const auto& [text, entry] : names_)
    if (std::find(wanted.begin(), wanted.end(), entry.kind) != wanted.end())
      candidates.push_back(text);
  const Entry* entry = find(name);
  const std::string known = entry ? " (it is the " +
                                        std::string(kKindNames[static_cast<int>(entry->kind)]) +
                                        " of line " + std::to_string(entry->line) + ")"
                                  : std::string();
  return fail(name,
              describe(name) + " is not " + what + known + did_you_mean(name.text, candidates));
}

bool TextParser::named(NameKind kind, const char* what, int16_t* out) {
  if (token_.kind != TokenKind::kName) return expected(what);
  const Entry* entry = find(token_);
  if (!entry || entry->kind != kind) return unknown_name(token_, {kind}, what);
  *out = entry->id;
  advance();
  return true;
}

bool TextParser::dtype(DType* out) {
  std::vector<std::string_view> names;
  for (int i = 1; i < kDTypeCount; ++i) names.push_back(dtype_name(static_cast<DType>(i)));
  if (token_.kind != TokenKind::kName) return expected("a dtype" + did_you_mean("", names));
  *out = dtype_from_name(token_.text);
  if (*out == DType::kInvalid) {
    std::string all;
    for (std::string_view n : names) all += (all.empty() ? "" : ", ") + std::string(n);
    return fail(token_, describe(token_) + " is not a dtype; allowed: " + all);
  }
  advance();
  return true;
}

bool TextParser::program() {
  token_ = lexer_.next();
  skip_newlines();
  if (!is_name("program")) return expected("'program'");
  const Token name = lexer_.next_word();
  const bool clean = std::all_of(name.text.begin(), name.text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
  if (name.kind != TokenKind::kName || !clean) {
    return fail(name, "expected the program's name ([a-z0-9_.]+), found " + describe(name));
  }
  program_.name = name.text;
  advance();
  if (!punct("{")) return false;
  skip_newlines();
  while (!is_punct("}")) {
    if (token_.kind == TokenKind::kEnd) return expected("'}' that closes the program");
    const Token keyword = token_;
    if (keyword.kind == TokenKind::kSlot) {
      if (!program_.nests.empty()) return fail(keyword, "slots stand before the first nest");
      if (!slot_line()) return false;
    } else if (keyword.kind == TokenKind::kName) {
      advance();
      if (!header_line(keyword)) return false;
    } else {
      return expected("target, ops, arg, %slot, const, guard or nest");
    }
  }
  advance();
  skip_newlines();
  if (token_.kind != TokenKind::kEnd)
    return expected("the end of the text after the program's '}'");
  if (!resolve_deferred()) return false;
  if (builder_->overflowed()) return fail(token_, "too many slots: a program has at most 32767");
  return true;
}

bool TextParser::header_line(const Token& keyword) {
  if (keyword.text == "nest") return resolve_deferred() && nest();
  if (!program_.nests.empty()) {
    return fail(keyword,
                "expected nest or '}', found " + describe(keyword) +
                    "; arguments, slots, constants and guards stand before the first nest");
  }
  if (keyword.text == "target") {
    if (token_.kind != TokenKind::kName) return expected("a target's name");
    program_.target = token_.text;
    advance();
    return end_line();
  }
  if (keyword.text == "ops") {
    int64_t count = 0;
    if (!bounded(0, 65535, "the number of ops", &count)) return false;
    program_.op_count = static_cast<uint16_t>(count);
    return end_line();
  }
  if (keyword.text == "arg") return arg_line();
  if (keyword.text == "const") return const_line();
  if (keyword.text == "guard") return guard_line();
  return fail(keyword,
              describe(keyword) + " does not start a line of a program" +
                  did_you_mean(keyword.text, {"target", "ops", "arg", "const", "guard", "nest"}));
}

bool TextParser::arg_line() {
  const Token name = token_;
  if (name.kind != TokenKind::kName) return expected("the argument's name");
  if (program_.args.size() >= 32767) return fail(name, "too many arguments: at most 32767");
  const auto id = static_cast<ArgId>(program_.args.size());
  if (!declare(NameKind::kArg, id, name)) return false;
  advance();
  if (!punct(":")) return false;
  ArgDecl arg;
  const Token kind = token_;
  if (accept_name("view")) {
    arg.kind = ArgKind::kView;
  } else if (accept_name("scalar")) {
    arg.kind = ArgKind::kScalar;
  } else if (accept_name("seed")) {
    arg.kind = ArgKind::kSeed;
  } else if (accept_name("scratch")) {
    arg.kind = ArgKind::kScratch;
  } else {
    return expected("view, scalar, seed or scratch");
  }
  const bool attribute_follows =
      is_name("rank") || is_name("read") || is_name("write") || is_name("elements");
  if (arg.kind != ArgKind::kSeed || (token_.kind == TokenKind::kName && !attribute_follows)) {
    if (!dtype(&arg.dtype)) return false;
  }
  while (token_.kind == TokenKind::kName) {
    if (accept_name("rank")) {
      int64_t rank = 0;
      if (!bounded(0, kMaxRank, "a view's rank", &rank)) return false;
      arg.rank = static_cast<uint8_t>(rank);
    } else if (accept_name("read")) {
      arg.read = true;
    } else if (accept_name("write")) {
      arg.written = true;
    } else if (is_name("elements")) {
      // Its expression may name slots of later lines: parsed when all are known.
      Lexer at = lexer_;
      const Token first = at.next();
      deferred_.push_back({id, at, first});
      while (token_.kind != TokenKind::kNewline && token_.kind != TokenKind::kEnd && !is_punct("}"))
        advance();
      break;
    } else {
      return expected("rank, read, write, elements or the end of the line");
    }
  }
  if (arg.kind == ArgKind::kScratch && (deferred_.empty() || deferred_.back().arg != id)) {
    return fail(kind, "a scratch argument needs 'elements' and their number");
  }
  program_.args.push_back(arg);
  return end_line();
}

bool TextParser::resolve_deferred() {
  const Lexer lexer = lexer_;
  const Token token = token_;
  for (const Deferred& d : deferred_) {
    lexer_ = d.lexer;
    token_ = d.token;
    if (!expression(&program_.args[d.arg].scratch_elements)) return false;
    if (token_.kind != TokenKind::kNewline && token_.kind != TokenKind::kEnd && !is_punct("}")) {
      return expected("the end of the line");
    }
  }
  deferred_.clear();
  lexer_ = lexer;
  token_ = token;
  return true;
}

bool TextParser::const_line() {
  const Token name = token_;
  if (name.kind != TokenKind::kName) return expected("the constant's name");
  if (program_.constants.size() >= 32767) return fail(name, "too many constants: at most 32767");
  if (!declare(NameKind::kConstant, static_cast<int16_t>(program_.constants.size()), name))
    return false;
  advance();
  ScalarValue value;
  if (!punct("=") || !literal(&value)) return false;
  program_.constants.push_back(value);
  return end_line();
}

bool TextParser::guard_line() {
  Guard guard;
  if (!expression(&guard.slot) || !punct("<=") || !integer(&guard.limit, true)) return false;
  program_.guards.push_back(guard);
  return end_line();
}

bool TextParser::slot_line() {
  const Token name = token_;
  advance();
  const auto it = slot_names_.find(name.text);
  if (it != slot_names_.end()) {
    return fail(name, "duplicate slot '" + std::string(name.text) + "': already in line " +
                          std::to_string(it->second.second));
  }
  if (!punct("=")) return false;
  Step step;
  if (!sum(&step)) return false;
  SlotId id = step.id;
  if (id == kNoSlot) {
    if (program_.slots.size() >= 32767)
      return fail(name, "too many slots: a program has at most 32767");
    id = static_cast<SlotId>(program_.slots.size());
    program_.slots.push_back(step.slot);
    builder_->note(id);
  }
  slot_names_.emplace(name.text, std::pair<SlotId, int>(id, name.line));
  return end_line();
}

bool TextParser::nest() {
  if (!punct("{")) return false;
  skip_newlines();
  program_.nests.emplace_back();
  nest_ = &program_.nests.back();
  const auto outer_names = names_;  // axes and tiles live as long as their nest
  while (!is_punct("}")) {
    if (token_.kind == TokenKind::kEnd) return expected("'}' that closes the nest");
    if (!nest_line(false)) return false;
  }
  advance();
  names_ = outer_names;
  nest_ = nullptr;
  return end_line();
}

bool TextParser::nest_line(bool finish) {
  if (token_.kind != TokenKind::kName) {
    return expected(finish ? "an instruction or '}'"
                           : "an axis, a tile, an instruction, finish or '}'");
  }
  if (!finish) {
    static constexpr std::string_view kRoles[] = {"loop", "partition", "free", "contract"};
    for (int r = 0; r < 4; ++r)
      if (accept_name(kRoles[r])) return axis_line(static_cast<AxisRole>(r));
    if (accept_name("tile")) return tile_line();
    if (accept_name("finish")) return finish_block();
  }
  return instr_line(finish);
}

bool TextParser::axis_line(AxisRole role) {
  if (!nest_->body.empty() || nest_->has_matmul || !nest_->finish.empty()) {
    return expected("an instruction; axes stand before the first instruction");
  }
  const Token name = token_;
  if (name.kind != TokenKind::kName) return expected("the axis's name");
  if (nest_->axes.size() >= kMaxAxes)
    return fail(name, "too many axes: a nest has at most " + std::to_string(kMaxAxes));
  if (!declare(NameKind::kAxis, static_cast<int16_t>(nest_->axes.size()), name)) return false;
  advance();
  Axis axis;
  axis.role = role;
  if (!punct(":") || !expression(&axis.extent)) return false;
  while (token_.kind == TokenKind::kName) {
    if (accept_name("split")) {
      int16_t outer = kNone;
      if (!named(NameKind::kAxis, "the outer axis of the split", &outer)) return false;
      axis.split_outer = static_cast<AxisId>(outer);
      if (!accept_name("of")) return expected("'of' and the length of the whole axis");
      if (!expression(&axis.split_limit)) return false;
    } else if (accept_name("tile")) {
      if (!expression(&axis.tile)) return false;
    } else if (accept_name("parallel")) {
      axis.kind = LoopKind::kParallel;
    } else if (accept_name("sequential")) {
      axis.kind = LoopKind::kSequential;
    } else if (accept_name("carried")) {
      axis.kind = LoopKind::kCarried;
    } else {
      return expected("split, tile, parallel, sequential, carried or the end of the line");
    }
  }
  nest_->axes.push_back(axis);
  return end_line();
}

bool TextParser::tile_line() {
  if (!nest_->body.empty() || nest_->has_matmul || !nest_->finish.empty()) {
    return expected("an instruction; tiles stand before the first instruction");
  }
  const Token name = token_;
  if (name.kind != TokenKind::kName) return expected("the tile's name");
  if (nest_->tiles.size() >= 32767) return fail(name, "too many tiles: a nest has at most 32767");
  if (!declare(NameKind::kTile, static_cast<int16_t>(nest_->tiles.size()), name)) return false;
  advance();
  Tile tile;
  if (!punct(":")) return false;
  if (accept_name("psum")) tile.space = Space::kPsum;
  if (!dtype(&tile.dtype) || !punct("[")) return false;
  // Each side is 1, the letter p or f, or the name of an axis with that role.
  bool spans[2] = {false, false};
  for (int side = 0; side < 2; ++side) {
    const AxisRole role = side == 0 ? AxisRole::kPartition : AxisRole::kFree;
    const char* what = side == 0 ? "p, a partition axis or 1" : "f, a free axis or 1";
    if (token_.kind == TokenKind::kInteger && token_.text == "1") {
      spans[side] = false;
    } else {
      const Entry* entry = token_.kind == TokenKind::kName ? find(token_) : nullptr;
      const bool by_axis =
          entry && entry->kind == NameKind::kAxis && nest_->axes[entry->id].role == role;
      if (!by_axis && !is_name(side == 0 ? "p" : "f")) return expected(what);
      spans[side] = true;
    }
    advance();
    if (!punct(side == 0 ? "," : "]")) return false;
  }
  tile.shape = spans[0] ? (spans[1] ? TileShape::kFull : TileShape::kRow)
                        : (spans[1] ? TileShape::kColumn : TileShape::kOne);
  nest_->tiles.push_back(tile);
  return end_line();
}

bool TextParser::finish_block() {
  if (!nest_->finish.empty()) return fail(token_, "a nest has at most one finish block");
  if (!punct("{")) return false;
  skip_newlines();
  while (!is_punct("}")) {
    if (token_.kind == TokenKind::kEnd) return expected("'}' that closes finish");
    if (!nest_line(true)) return false;
  }
  advance();
  return end_line();
}

}  // namespace nax
