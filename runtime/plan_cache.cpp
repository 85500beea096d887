#include "runtime/plan_cache.h"

#include <cstring>

#include "device/isa/scalar_op.h"
#include "device/isa/verify.h"
#include "runtime/plan_io.h"

namespace nax {
namespace {

constexpr CacheBudget kExactBudget{4096, size_t{64} << 20};
constexpr CacheBudget kWindowBudget{4096, size_t{256} << 20};
constexpr CacheBudget kProgramBudget{8192, size_t{256} << 20};

size_t program_bytes(const Program& program) {
  size_t bytes = sizeof program + program.args.size() * sizeof(ArgDecl) + program.slots.size() * sizeof(Slot);
  for (const Nest& nest : program.nests)
    bytes += sizeof nest + (nest.body.size() + nest.finish.size()) * sizeof(Instr) + nest.tiles.size() * sizeof(Tile);
  return 2 * bytes;  // the prepared form is about as large again
}

size_t plan_bytes(const WindowPlan& plan) {
  size_t bytes = sizeof plan + plan.decisions.size() * sizeof(FusionDecision);
  for (const PlannedLaunch& launch : plan.launches)
    bytes += sizeof launch + sizeof(LaunchStep) + launch.args.size() * sizeof(ArgBinding) +
             4 * (launch.ops.size() + launch.reads.size() + launch.writes.size()) + 64;
  return bytes;
}

// Whether running the program can set an error bit.
bool can_fail(const PreparedProgram& prepared) {
  for (int i = 0; i < prepared.nest_count(); ++i)
    if (prepared.lanes(i).may_fail || prepared.lanes(i).has_indirect) return true;
  return false;
}

}  // namespace

void append_exact_key(const Window& window, const char* policy, std::string* out) {
  // The largest window has some thousand operands: grow once, then write without checks.
  struct OpPart {
    uint16_t id;
    uint8_t compute, inputs, outputs, attrs, pad[2];
  };
  struct ViewPart {
    int32_t buffer;
    uint8_t cls, dtype, rank, scalar_kind;
    int64_t offset;
  };
  size_t size = 16 + std::strlen(policy) + 1 + window.ops.size() * sizeof(OpPart) + window.attrs.size() * 8 +
                window.buffers.size() * 9;
  for (const WindowOperand& operand : window.operands) size += sizeof(ViewPart) + operand.view.rank * size_t{16};
  const size_t start = out->size();
  out->resize(start + size);
  char* p = out->data() + start;
  const auto write = [&p](const void* data, size_t n) {
    std::memcpy(p, data, n);
    p += n;
  };
  const uint64_t counts[2] = {window.ops.size() << 32 | window.buffers.size(), window.operands.size() << 32 | window.attrs.size()};
  write(counts, sizeof counts);
  write(policy, std::strlen(policy) + 1);
  for (const WindowOp& op : window.ops) {
    const OpPart part = {static_cast<uint16_t>(op.id), static_cast<uint8_t>(op.compute), op.input_count, op.output_count,
                         op.attr_count, {0, 0}};
    write(&part, sizeof part);
  }
  for (const WindowOperand& operand : window.operands) {
    const View& v = operand.view;
    const bool scalar = operand.cls == OperandClass::kScalar;
    const ViewPart part = {v.buffer, static_cast<uint8_t>(operand.cls), static_cast<uint8_t>(v.dtype), v.rank,
                           scalar ? static_cast<uint8_t>(operand.scalar.kind) : uint8_t{0}, v.offset_bytes};
    write(&part, sizeof part);
    for (size_t d = 0; d < v.rank; ++d, p += 16) {  // beats two calls of memcpy for the few dimensions there are
      std::memcpy(p, &v.sizes[d], 8);
      std::memcpy(p + 8, &v.strides[d], 8);
    }
  }
  if (!window.attrs.empty()) write(window.attrs.data(), window.attrs.size() * 8);
  for (const WindowBuffer& buffer : window.buffers) {
    const char flags = static_cast<char>(buffer.live_out | buffer.born_here << 1);
    write(&flags, 1);
    write(&buffer.bytes, 8);
  }
}

PlanCache::PlanCache(const TargetInfo& target, std::unique_ptr<DiskStore> disk, Stats& stats, FaultInjection& faults)
    : target_(target), disk_(std::move(disk)), stats_(stats), faults_(faults), exact_(kExactBudget), windows_(kWindowBudget),
      programs_(kProgramBudget) {
  if (disk_) writer_ = std::make_unique<PlanWriter>(*disk_, stats_);
}

StatusOr<std::shared_ptr<ExactPlan>> PlanCache::get(const Window& window, const char* policy) {
  exact_key_.clear();
  append_exact_key(window, policy, &exact_key_);
  const CacheKey exact(exact_key_);
  if (auto found = exact_.find(exact)) {
    stats_.add(Counter::k_plan_hits);
    return found;
  }
  window_key_.clear();
  append_window_key(window, policy, target_, &window_key_);
  const CacheKey key(window_key_);
  std::shared_ptr<PlanEntry> entry = windows_.find(key);
  if (entry) {
    stats_.add(Counter::k_plan_hits);
  } else {
    stats_.add(Counter::k_plan_misses);
    if (std::shared_ptr<const WindowPlan> stored = load(key, window)) {
      auto prepared = prepare(std::move(stored), true);
      if (prepared.ok()) entry = *prepared;
    }
    if (!entry) {
      stats_.add(MissReason::k_new_window);
      NAX_ASSIGN_OR_RETURN(entry, make(window, policy));
      if (writer_) writer_->write(window_key_, entry->plan);
    }
    entry = windows_.insert(key, std::move(entry), plan_bytes(*entry->plan));
  }
  auto exact_plan = std::make_shared<ExactPlan>();
  exact_plan->entry = std::move(entry);
  return exact_.insert(exact, std::move(exact_plan), 512);
}

std::shared_ptr<const WindowPlan> PlanCache::load(const CacheKey& key, const Window& window) {
  if (!disk_) return nullptr;
  DiskMiss reason = DiskMiss::kNone;
  const std::optional<std::string> payload = disk_->load(key, &reason);
  if (!payload) {
    switch (reason) {
      case DiskMiss::kNotFound:
      case DiskMiss::kOtherKey:
      case DiskMiss::kNone: break;
      case DiskMiss::kOtherBuild:
      case DiskMiss::kOtherFormat: stats_.add(MissReason::k_disk_other_build); break;
      case DiskMiss::kUnreadable:
      case DiskMiss::kForeign: stats_.add(MissReason::k_disk_unreadable); break;
      default: stats_.add(MissReason::k_disk_damaged); break;
    }
    return nullptr;
  }
  StatusOr<std::shared_ptr<const WindowPlan>> plan = decode_plan(*payload, window);
  if (!plan.ok()) {
    stats_.add(MissReason::k_disk_damaged);
    return nullptr;
  }
  stats_.add(Counter::k_cache_disk_hits);
  return *plan;
}

StatusOr<std::shared_ptr<PlanEntry>> PlanCache::make(const Window& window, const char* policy) {
  const auto attempt = [&](const char* name) -> StatusOr<std::shared_ptr<PlanEntry>> {
    NAX_ASSIGN_OR_RETURN(std::shared_ptr<const WindowPlan> plan, make_plan(window, name, target_));
    if (plan->rejected) stats_.add_plan_rejected(plan->rejected);
    return prepare(std::move(plan), false);
  };
  StatusOr<std::shared_ptr<PlanEntry>> entry = faults_.plan.fires() ? internal_error("injected plan failure") : attempt(policy);
  if (!entry.ok() && window.ops.size() > 1 && std::string_view(policy) != "strict") {
    stats_.add(MissReason::k_plan_failed);
    entry = attempt("strict");
  }
  return entry;
}

StatusOr<std::shared_ptr<PlanEntry>> PlanCache::prepare(std::shared_ptr<const WindowPlan> plan, bool loaded) {
  std::vector<std::vector<std::shared_ptr<ProgramEntry>>> programs;
  programs.reserve(plan->launches.size());
  for (const PlannedLaunch& launch : plan->launches) {
    auto& variants = programs.emplace_back();
    for (size_t v = 0; v < launch.programs.size(); ++v) {
      NAX_ASSIGN_OR_RETURN(auto entry, prepare(launch.keys[v], launch.programs[v],
                                               loaded ? Counter::k_programs_loaded : Counter::k_programs_compiled));
      variants.push_back(std::move(entry));
    }
  }
  auto entry = std::make_shared<PlanEntry>();
  entry->steps = gather_launches(*plan, std::move(programs));
  entry->plan = std::move(plan);
  return entry;
}

StatusOr<std::shared_ptr<ProgramEntry>> PlanCache::prepare(const std::string& key, const std::shared_ptr<const Program>& program,
                                                           Counter on_miss) {
  const CacheKey cache_key(key);
  if (auto found = programs_.find(cache_key)) {
    stats_.add(Counter::k_cache_memory_hits);
    return found;
  }
  // Whatever made it, a program runs only after the verifier has seen it (DESIGN I4).
  NAX_RETURN_IF_ERROR(verify(*program));
  auto entry = std::make_shared<ProgramEntry>();
  NAX_ASSIGN_OR_RETURN(entry->prepared, PreparedProgram::prepare(program));
  entry->may_fail = can_fail(*entry->prepared);
  stats_.add(on_miss);
  return programs_.insert(cache_key, std::move(entry), program_bytes(*program));
}

StatusOr<std::shared_ptr<ProgramEntry>> PlanCache::program(const std::string& key, std::shared_ptr<const Program> program) {
  return prepare(key, program, Counter::k_programs_loaded);
}

}  // namespace nax
