#include <algorithm>
#include <cstring>
#include <memory>

#include "api/c/boundary.h"
#include "device/isa/slots.h"
#include "device/isa/text.h"
#include "device/isa/verify.h"
#include "device/targets/fit.h"
#include "device/targets/target.h"
#include "runtime/device_clock.h"
#include "runtime/program_launch.h"

using namespace nax;
using namespace nax::c;

nax_status* nax_program_parse(const char* text, size_t length, nax_program** out_program) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(text);
    NAX_C_REQUIRE(out_program);
    NAX_ASSIGN_OR_RETURN(Program parsed, parse_program(std::string_view(text, length)));
    auto program = std::make_unique<nax_program>();
    program->key = "text\n" + to_text(parsed);
    program->program = std::make_shared<const Program>(std::move(parsed));
    *out_program = program.release();
    return {};
  });
}

void nax_program_destroy(nax_program* program) { delete program; }

nax_status* nax_program_verify(const nax_program* program, const char* target) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(program);
    NAX_RETURN_IF_ERROR(target_or_error(target ? target : std::string_view(kDefaultTarget)).status());
    NAX_RETURN_IF_ERROR(verify(*program->program));
    return {};
  });
}

nax_status* nax_program_text(const nax_program* program, char* out_text, size_t size, size_t* out_needed) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(program);
    if (size) NAX_C_REQUIRE(out_text);
    const std::string text = to_text(*program->program);
    if (size) {
      const size_t n = std::min(size - 1, text.size());
      std::memcpy(out_text, text.data(), n);
      out_text[n] = '\0';
    }
    if (out_needed) *out_needed = text.size();
    return {};
  });
}

nax_status* nax_stream_launch(nax_stream* stream, const nax_program* program, const nax_operand* operands, uint32_t operand_count) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(stream);
    NAX_C_REQUIRE(program);
    return launch_program(*cast(stream), program->program, program->key, operands, operand_count);
  });
}

nax_status* nax_program_time_ns(const nax_program* program, const char* target, const nax_operand* operands, uint32_t operand_count,
                                double* out_ns) {
  return guard([&]() -> Status {
    NAX_C_REQUIRE(program);
    NAX_C_REQUIRE(out_ns);
    NAX_ASSIGN_OR_RETURN(const TargetInfo* info, target_or_error(target ? target : std::string_view(kDefaultTarget)));
    const Program& p = *program->program;
    NAX_RETURN_IF_ERROR(verify(p));
    std::vector<ArgValue> row;
    NAX_RETURN_IF_ERROR(bind_operands(p, operands, operand_count, &row, nullptr));
    std::vector<int64_t> slots(p.slots.size());
    evaluate_slots(p, row.data(), slots.data());
    NAX_RETURN_IF_ERROR(check_fit(p, slots.data(), *info));
    *out_ns = program_time_ns(p, slots.data(), *info);
    return {};
  });
}
