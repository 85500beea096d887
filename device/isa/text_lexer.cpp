#include "device/isa/text_lexer.h"

namespace nax {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_alpha(c) || is_digit(c) || c == '.'; }

}  // namespace

std::string printable(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes.substr(0, 40)) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 0x20 && u < 0x7f) {
      out += c;
    } else {
      out += "\\x";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    }
  }
  if (bytes.size() > 40) out += "...";
  return out;
}

std::string describe(const Token& t) {
  switch (t.kind) {
    case TokenKind::kEnd:
      return "the end of the text";
    case TokenKind::kNewline:
      return "the end of the line";
    default:
      return "'" + printable(t.text) + "'";
  }
}

Token Lexer::make(TokenKind kind, size_t begin, int column) const {
  return {kind, source_.substr(begin, at_ - begin), line_, column, begin};
}

void Lexer::skip_blanks() {
  while (at_ < source_.size()) {
    const char c = source_[at_];
    if (c == '#') {
      while (at_ < source_.size() && source_[at_] != '\n') ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '\n' && depth_ > 0) {
      ++at_;
      ++line_;
      line_begin_ = at_;
    } else {
      return;
    }
  }
}

Token Lexer::next() {
  skip_blanks();
  const size_t begin = at_;
  const int column = static_cast<int>(begin - line_begin_) + 1;
  if (at_ >= source_.size()) return make(TokenKind::kEnd, begin, column);
  const char c = source_[at_++];
  if (c == '\n') {
    const Token t = make(TokenKind::kNewline, begin, column);
    ++line_;
    line_begin_ = at_;
    return t;
  }
  if (is_alpha(c)) {
    while (at_ < source_.size() && is_word(source_[at_])) ++at_;
    return make(TokenKind::kName, begin, column);
  }
  if (is_digit(c)) return number(begin, column);
  if (c == '%') {
    while (at_ < source_.size() && is_word(source_[at_])) ++at_;
    return make(at_ == begin + 1 ? TokenKind::kBad : TokenKind::kSlot, begin, column);
  }
  const char following = at_ < source_.size() ? source_[at_] : '\0';
  switch (c) {
    case '<':
    case '+':
      if (following == '=') ++at_;
      if (c == '<' && following != '=') return make(TokenKind::kBad, begin, column);
      return make(TokenKind::kPunct, begin, column);
    case '(':
    case '[':
      ++depth_;
      return make(TokenKind::kPunct, begin, column);
    case ')':
    case ']':
      if (depth_ > 0) --depth_;
      return make(TokenKind::kPunct, begin, column);
    case '{':
    case '}':
    case ':':
    case ',':
    case '=':
    case '-':
    case '*':
      return make(TokenKind::kPunct, begin, column);
    default:
      return make(TokenKind::kBad, begin, column);
  }
}

Token Lexer::number(size_t begin, int column) {
  bool floating = false;
  if (source_[begin] == '0' && at_ < source_.size() && source_[at_] == 'x') {
    ++at_;
    while (at_ < source_.size() && (is_digit(source_[at_]) || is_alpha(source_[at_]))) ++at_;
    return make(TokenKind::kInteger, begin, column);
  }
  while (at_ < source_.size()) {
    const char c = source_[at_];
    if (is_digit(c)) {
      ++at_;
    } else if (c == '.') {
      floating = true;
      ++at_;
    } else if (c == 'e' || c == 'E') {
      floating = true;
      ++at_;
      if (at_ < source_.size() && (source_[at_] == '+' || source_[at_] == '-')) ++at_;
    } else if (is_alpha(c)) {
      while (at_ < source_.size() && is_word(source_[at_])) ++at_;
      return make(TokenKind::kBad, begin, column);
    } else {
      break;
    }
  }
  return make(floating ? TokenKind::kFloat : TokenKind::kInteger, begin, column);
}

Token Lexer::next_word() {
  skip_blanks();
  const size_t begin = at_;
  const int column = static_cast<int>(begin - line_begin_) + 1;
  while (at_ < source_.size() && is_word(source_[at_])) ++at_;
  if (at_ == begin) return next();
  return make(TokenKind::kName, begin, column);
}

}  // namespace nax
