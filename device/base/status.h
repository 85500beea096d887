// Errors as values. A Status is one pointer: null means ok, so success costs no allocation.
// Contract: nothing below the C API throws, prints or aborts; every failure is a Status with context (DESIGN I9).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace nax {

// The absl canonical codes, fixed values, never renumbered (they cross the C API).
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
};

// What kind of failure it is, finer than the code. The torch binding maps (code, reason) to a Python type in one file.
enum class ErrorReason : int {
  kNone = 0,
  kIndexOutOfRange = 1,        // data-dependent index error on the device
  kIntegerDivideByZero = 2,    // "ZeroDivisionError" in PyTorch's words
  kHbmExhausted = 3,           // torch.OutOfMemoryError
  kEngineFault = 4,            // an engine program failed while running
  kCompileFailed = 5,
  kVerifyFailed = 6,           // an engine program is malformed or does not fit SBUF/PSUM
  kParseFailed = 7,
  kBadEnvironment = 8,         // an environment variable has a value that is not allowed
  kPoisoned = 9,               // a value that a failed op would have produced was read
  kAbiMismatch = 10,
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message, ErrorReason reason = ErrorReason::kNone)
      : rep_(new Rep{code, reason, std::move(message)}) {}

  Status(const Status& other) : rep_(other.rep_ ? new Rep(*other.rep_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) rep_.reset(other.rep_ ? new Rep(*other.rep_) : nullptr);
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  ErrorReason reason() const { return rep_ ? rep_->reason : ErrorReason::kNone; }
  std::string_view message() const { return rep_ ? std::string_view(rep_->message) : std::string_view(); }

  // Adds where it happened in front of the message; no effect on ok.
  Status with_context(std::string_view context) && {
    if (rep_) rep_->message = std::string(context) + ": " + rep_->message;
    return std::move(*this);
  }

 private:
  struct Rep {
    StatusCode code;
    ErrorReason reason;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

inline Status invalid_argument(std::string m) { return {StatusCode::kInvalidArgument, std::move(m)}; }
inline Status unimplemented(std::string m) { return {StatusCode::kUnimplemented, std::move(m)}; }
inline Status internal_error(std::string m) { return {StatusCode::kInternal, std::move(m)}; }

// A value or the reason why there is none.
template <class T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}
  StatusOr(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

#define NAX_RETURN_IF_ERROR(expr)                              \
  do {                                                         \
    if (::nax::Status nax_status_ = (expr); !nax_status_.ok()) \
      return nax_status_;                                      \
  } while (0)

#define NAX_CONCAT_INNER(a, b) a##b
#define NAX_CONCAT(a, b) NAX_CONCAT_INNER(a, b)
#define NAX_ASSIGN_OR_RETURN(decl, expr) NAX_ASSIGN_OR_RETURN_IMPL(NAX_CONCAT(nax_or_, __LINE__), decl, expr)
#define NAX_ASSIGN_OR_RETURN_IMPL(tmp, decl, expr) \
  auto tmp = (expr);                               \
  if (!tmp.ok()) return std::move(tmp).status();   \
  decl = std::move(tmp).value()

}  // namespace nax
