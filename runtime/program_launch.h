// Launching one hand-written engine program in a stream's order, beside the recorder (nax_stream_launch).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/base/status.h"
#include "device/isa/program.h"
#include "nax/nax.h"

namespace nax {

class Buffer;
class Runtime;
class Stream;

// The argument row that the operands stand for: one operand for each argument that is not scratch. Checks classes,
// dtypes, ranks and that views lie in their buffers. `buffers`, if given, gets each argument's buffer or null; `data` is
// not set.
Status bind_operands(const Program& program, const nax_operand* operands, uint32_t count, std::vector<ArgValue>* row,
                     std::vector<Buffer*>* buffers);

// Verifies against the target with these sizes, then queues the launch. In eager mode it runs before the call returns.
Status launch_program(Stream& stream, const std::shared_ptr<const Program>& program, const std::string& key,
                      const nax_operand* operands, uint32_t count);

}  // namespace nax
