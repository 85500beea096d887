// The verifier's state, shared by its two sources. Private to device/isa.
#pragma once

#include <string>
#include <vector>

#include "device/isa/program.h"
#include "device/isa/verify.h"

namespace nax {

Status verify_failed(std::string message);

// Checks one nest. `scratch_written` tells which scratch arguments have contents, over the nests of
// a program.
class NestVerifier {
 public:
  NestVerifier(const Program& program, size_t index, std::vector<bool>* scratch_written,
               std::vector<ArgDecl>* used);
  Status run();

 private:
  // verify.cpp
  Status axes();
  Status split(AxisId id);
  Status tiles();
  Status matmul();
  Status access(const HbmAccess& h, bool store, const std::vector<AxisRole>& roles);
  Status slot(SlotId id, const char* what, bool required) const;

  // verify_instr.cpp
  Status instr(const Instr& i, bool finish);
  Status unused_fields(const Instr& i) const;
  Status dma(const Instr& i, bool finish);
  Status pointwise(const Instr& i, bool finish);
  Status reduction(const Instr& i, bool finish);
  Status generator(const Instr& i);
  Status operand(const Instr& i, size_t k, bool finish, bool may_be_scalar);
  Status tile_readable(TileId t, bool finish) const;
  Status destination(const Instr& i, bool finish);
  Status engine(const Instr& i, Lane lane) const;
  const Tile& tile(TileId t) const { return nest_.tiles[t]; }

  const Program& program_;
  const Nest& nest_;
  size_t index_;
  std::vector<bool>* scratch_written_;
  std::vector<ArgDecl>* used_;  // .read and .written as found
  bool tiled_ = false, carried_ = false;
  enum class State : uint8_t { kUnwritten, kWritten, kReducing };
  std::vector<State>
      state_;  // a reduction over several tiles leaves its tile kReducing until `finish`
  std::vector<bool> from_body_;  // tiles written in the body
};

}  // namespace nax
