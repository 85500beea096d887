// Tokens of the text form. A newline is a token, except inside ( ) and [ ]; `#` starts a comment
// that ends with the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nax {

enum class TokenKind : uint8_t { kEnd, kNewline, kName, kSlot, kInteger, kFloat, kPunct, kBad };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // kSlot: with the %; kBad: the offending bytes
  int line = 1, column = 1;
  size_t offset = 0;  // into the source
};

// "the name 'x'", "the end of the line" ...: a token as an error message names it. Bytes that are
// not printable ASCII are shown as \xNN.
std::string describe(const Token& token);
std::string printable(std::string_view bytes);

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Token next();
  // The longest run of [A-Za-z0-9_.] from here, skipping blanks first: for names that may start
  // with a digit.
  Token next_word();

 private:
  void skip_blanks();
  Token make(TokenKind kind, size_t begin, int column) const;
  Token number(size_t begin, int column);

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  size_t line_begin_ = 0;
  int depth_ = 0;  // of ( and [
};

}  // namespace nax
