#include "runtime/plan_io.h"

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "device/isa/serialize.h"

namespace nax {
namespace {

constexpr char kMagic[8] = {'n', 'a', 'x', 'p', 'l', 'a', 'n', '\n'};

class Writer {
 public:
  explicit Writer(std::string* out) : out_(out) {}
  void u8(uint8_t v) { raw(&v, 1); }
  void u32(uint32_t v) { raw(&v, 4); }
  void text(std::string_view v) {
    u32(static_cast<uint32_t>(v.size()));
    raw(v.data(), v.size());
  }
  template <class T>
  void numbers(const std::vector<T>& v) {
    u32(static_cast<uint32_t>(v.size()));
    for (T x : v) u32(static_cast<uint32_t>(x));
  }

 private:
  void raw(const void* data, size_t n) { out_->append(static_cast<const char*>(data), n); }
  std::string* out_;
};

// After the first failure every read gives zeros and failed() stays true.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  bool failed() const { return failed_; }
  bool at_end() const { return left_.empty(); }
  uint8_t u8() {
    uint8_t v = 0;
    raw(&v, 1);
    return v;
  }
  uint32_t u32() {
    uint32_t v = 0;
    raw(&v, 4);
    return v;
  }
  std::string_view text() {
    const uint32_t size = u32();
    if (size > left_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view v = left_.substr(0, size);
    left_.remove_prefix(size);
    return v;
  }
  // A count of things that take at least `each` bytes: never more than the bytes can hold.
  uint32_t count(size_t each) {
    const uint32_t n = u32();
    if (n > left_.size() / each) {
      failed_ = true;
      return 0;
    }
    return n;
  }
  // Numbers below a limit.
  template <class T>
  void numbers(size_t limit, std::vector<T>* out) {
    const uint32_t n = count(4);
    out->reserve(n);
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t v = u32();
      if (v >= limit) failed_ = true;
      out->push_back(static_cast<T>(v));
    }
  }
  void fail() { failed_ = true; }

 private:
  void raw(void* out, size_t n) {
    if (n > left_.size()) {
      failed_ = true;
      left_ = {};
      return;
    }
    std::memcpy(out, left_.data(), n);
    left_.remove_prefix(n);
  }
  std::string_view left_;
  bool failed_ = false;
};

// Reasons are static text in a plan; read ones live until the process ends. There are few; a flood of them is cut off.
const char* lasting(std::string_view text) {
  if (text.empty()) return "";
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string, std::less<>>& texts = *new std::set<std::string, std::less<>>;
  std::lock_guard lock(mutex);
  if (const auto found = texts.find(text); found != texts.end()) return found->c_str();
  if (texts.size() >= 256 || text.size() > 256) return "other";
  return texts.emplace(text).first->c_str();
}

bool binding_fits(const ArgBinding& binding, const ArgDecl& decl, const Window& window) {
  if (binding.kind != decl.kind) return false;
  if (binding.kind == ArgKind::kScratch) return true;
  if (binding.op >= window.ops.size()) return false;
  const WindowOp& op = window.ops[binding.op];
  if (binding.operand >= op.input_count + op.output_count) return false;
  const WindowOperand& operand = window.operands[op.first_operand + binding.operand];
  switch (binding.kind) {
    case ArgKind::kView:
      return operand.cls == OperandClass::kTensor && operand.view.dtype == decl.dtype && decl.rank <= operand.view.rank;
    case ArgKind::kScalar:
      return binding.source == ScalarSource::kReducedCount ? op.attr_count > 0 && operand.cls == OperandClass::kTensor
                                                           : operand.cls == OperandClass::kScalar;
    default: return operand.cls == OperandClass::kScalar;
  }
}

Status damaged(const char* what) {
  return {StatusCode::kDataLoss, std::string("stored plan: ") + what};
}

}  // namespace

std::string encode_plan(const WindowPlan& plan) {
  std::string bytes(kMagic, sizeof kMagic);
  Writer out(&bytes);
  out.u32(kPlanFormatVersion);
  out.text(plan.policy);
  out.text(plan.rejected ? plan.rejected : "");
  out.u32(plan.dead_temporaries);

  // Equal regions share a program: each is stored once.
  std::map<std::string_view, uint32_t> numbers;
  std::vector<std::pair<std::string_view, const Program*>> programs;
  for (const PlannedLaunch& launch : plan.launches)
    for (size_t v = 0; v < launch.programs.size(); ++v)
      if (numbers.emplace(launch.keys[v], static_cast<uint32_t>(programs.size())).second)
        programs.emplace_back(launch.keys[v], launch.programs[v].get());
  out.u32(static_cast<uint32_t>(programs.size()));
  for (const auto& [key, program] : programs) {
    out.text(key);
    out.text(serialize_program(*program));
  }

  out.u32(static_cast<uint32_t>(plan.launches.size()));
  for (const PlannedLaunch& launch : plan.launches) {
    out.u32(static_cast<uint32_t>(launch.programs.size()));
    for (const std::string& key : launch.keys) out.u32(numbers.at(key));
    out.u32(static_cast<uint32_t>(launch.args.size()));
    for (const ArgBinding& arg : launch.args) {
      out.u8(static_cast<uint8_t>(arg.kind));
      out.u8(static_cast<uint8_t>(arg.source));
      out.u8(arg.operand);
      out.u32(arg.op);
    }
    out.numbers(launch.ops);
    out.numbers(launch.reads);
    out.numbers(launch.writes);
    out.numbers(launch.release_after);
  }
  out.u32(static_cast<uint32_t>(plan.decisions.size()));
  for (const FusionDecision& d : plan.decisions) {
    out.u32(d.op);
    out.u32(d.region);
    out.text(d.reason);
  }
  return bytes;
}

StatusOr<std::shared_ptr<const WindowPlan>> decode_plan(std::string_view bytes, const Window& window) {
  if (!bytes.starts_with(std::string_view(kMagic, sizeof kMagic))) return damaged("wrong first bytes");
  Reader in(bytes.substr(sizeof kMagic));
  if (in.u32() != kPlanFormatVersion) return damaged("another format version");
  auto plan = std::make_shared<WindowPlan>();
  plan->policy = in.text();
  const std::string_view rejected = in.text();
  if (!rejected.empty()) plan->rejected = lasting(rejected);
  plan->dead_temporaries = in.u32();

  std::vector<std::pair<std::string, std::shared_ptr<const Program>>> programs;
  for (uint32_t n = in.count(8); n-- > 0 && !in.failed();) {
    std::string key(in.text());
    NAX_ASSIGN_OR_RETURN(Program program, deserialize_program(in.text()));
    programs.emplace_back(std::move(key), std::make_shared<const Program>(std::move(program)));
  }

  const uint32_t launches = in.count(8);
  for (uint32_t l = 0; l < launches && !in.failed(); ++l) {
    PlannedLaunch& launch = plan->launches.emplace_back();
    const uint32_t variants = in.count(4);
    if (variants < 1 || variants > 4) return damaged("a launch has 1 to 4 variants");
    for (uint32_t v = 0; v < variants; ++v) {
      const uint32_t number = in.u32();
      if (number >= programs.size()) return damaged("a launch names a program that is not there");
      launch.keys.push_back(programs[number].first);
      launch.programs.push_back(programs[number].second);
    }
    const uint32_t args = in.count(7);
    for (uint32_t a = 0; a < args; ++a) {
      ArgBinding& arg = launch.args.emplace_back();
      const uint8_t kind = in.u8(), source = in.u8();
      if (kind > static_cast<uint8_t>(ArgKind::kScratch) || source > static_cast<uint8_t>(ScalarSource::kReducedCount))
        return damaged("an argument of unknown kind");
      arg.kind = static_cast<ArgKind>(kind);
      arg.source = static_cast<ScalarSource>(source);
      arg.operand = in.u8();
      arg.op = in.u32();
    }
    in.numbers(window.ops.size(), &launch.ops);
    in.numbers(window.buffers.size(), &launch.reads);
    in.numbers(window.buffers.size(), &launch.writes);
    in.numbers(window.buffers.size(), &launch.release_after);
    if (in.failed()) break;
    for (const auto& program : launch.programs) {
      if (program->args.size() < launch.args.size() || program->op_count != launch.ops.size())
        return damaged("a launch does not fit its program");
      for (size_t a = 0; a < program->args.size(); ++a) {
        const ArgDecl& decl = program->args[a];
        if (a < launch.args.size() ? !binding_fits(launch.args[a], decl, window) : decl.kind != ArgKind::kScratch)
          return damaged("an argument does not fit its operand");
      }
    }
  }
  const uint32_t decisions = in.count(12);
  for (uint32_t d = 0; d < decisions && !in.failed(); ++d) {
    FusionDecision& decision = plan->decisions.emplace_back();
    decision.op = in.u32();
    decision.region = in.u32();
    decision.reason = lasting(in.text());
  }
  if (in.failed() || !in.at_end()) return damaged("truncated, or a number out of range");
  return std::shared_ptr<const WindowPlan>(std::move(plan));
}

}  // namespace nax
