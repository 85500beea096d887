// Tier 0: runs an engine program on host memory, element-exact by DESIGN I2; the oracle of every other tier.
//
// Prepare once, run many times. A PreparedProgram is immutable apart from one atomic slot a nest for a compiled kernel, so
// any number of threads may run it at the same time. It schedules for the host (strips, rows, threads), never by tiles:
// results do not depend on thread count, strip size or tile size.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/base/status.h"
#include "device/interpreter/lane_program.h"
#include "device/isa/program.h"
#include "device/pool/pool.h"

namespace nax {

struct PreparedNest;

// Over the life of the prepared program: launches of a nest in which each tier executed runs (both, if the kernel took
// some and the strips the rest), and launches that went through device/matmul.
struct NestStats {
  int64_t interpreted = 0;
  int64_t compiled = 0;
  int64_t matmul = 0;
};

class PreparedProgram {
 public:
  // Checks and prepares; kUnimplemented with a reason for what the interpreter cannot run. Does not repeat the verifier's
  // work: the program must have passed it.
  static StatusOr<std::shared_ptr<PreparedProgram>> prepare(std::shared_ptr<const Program> program);
  ~PreparedProgram();
  PreparedProgram(const PreparedProgram&) = delete;
  PreparedProgram& operator=(const PreparedProgram&) = delete;

  // One launch: `rows` holds n_rows x program.args.size() cells, one row an instance; instances are independent. Scratch
  // cells are provided here and ignored in `rows`. Bits of OpErrorBits are or-ed into op_errors[op]. Guards are the
  // launcher's business. Memory of the views must stay valid until the call returns. A data error (index, division) is not
  // a bad status: the op's bit is set and a safe value used.
  Status run(const ArgValue* rows, int64_t n_rows, ThreadPool& pool, uint8_t* op_errors) const;

  const Program& program() const { return *program_; }
  int nest_count() const { return static_cast<int>(nests_.size()); }
  const LaneProgram& lanes(int nest) const;

  // Publishes a kernel for a nest; runs that start afterwards may use it. A null kernel goes back to strips.
  void attach_kernel(int nest, std::shared_ptr<const CompiledKernel> kernel);
  std::shared_ptr<const CompiledKernel> kernel(int nest) const;  // null without one
  NestStats stats(int nest) const;

 private:
  explicit PreparedProgram(std::shared_ptr<const Program> program);

  std::shared_ptr<const Program> program_;
  std::vector<std::unique_ptr<PreparedNest>> nests_;
};

}  // namespace nax
