/* nax C API.
 *
 * Conventions
 *   Names      nax_<object>_<verb>; out parameters last, named out_*. Units stand in names (_bytes, _ns).
 *   Errors     A function that can fail returns nax_status*: NULL is success; otherwise the caller owns it (nax_status_destroy).
 *              On failure out parameters are untouched. The library never prints, aborts, exits or throws.
 *   Ownership  *_create and *_parse give ownership; *_destroy and *_release take it and accept NULL. Getters lend.
 *   Structs    Options and descriptions start with struct_size = sizeof(the struct): later versions append fields; zero is
 *              the default of every field.
 *   Threads    A runtime, its streams and buffers may be used from any thread at once (they lock inside). A nax_status and a
 *              nax_program belong to one thread at a time.
 *   Waiting    Functions that may wait for the device say so. They call the wait hook around each wait, and hold no lock.
 */
#ifndef NAX_NAX_H_
#define NAX_NAX_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define NAX_API __attribute__((visibility("default")))
#define NAX_MUST_USE __attribute__((warn_unused_result))
#else
#define NAX_API
#define NAX_MUST_USE
#endif

#include "nax/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NAX_ABI_VERSION 1
#define NAX_MAX_RANK 6

typedef struct nax_status nax_status;
typedef struct nax_runtime nax_runtime;   /* one emulated NeuronCore and everything around it */
typedef struct nax_stream nax_stream;
typedef struct nax_event nax_event;
typedef struct nax_buffer nax_buffer;     /* a device address from birth; memory once something that survives writes it */
typedef struct nax_program nax_program;   /* an engine program */

/* ---- Status ------------------------------------------------------------------------------------------------------- */

typedef enum nax_code {
  NAX_OK = 0, NAX_CANCELLED = 1, NAX_UNKNOWN = 2, NAX_INVALID_ARGUMENT = 3, NAX_DEADLINE_EXCEEDED = 4, NAX_NOT_FOUND = 5,
  NAX_ALREADY_EXISTS = 6, NAX_PERMISSION_DENIED = 7, NAX_RESOURCE_EXHAUSTED = 8, NAX_FAILED_PRECONDITION = 9,
  NAX_ABORTED = 10, NAX_OUT_OF_RANGE = 11, NAX_UNIMPLEMENTED = 12, NAX_INTERNAL = 13, NAX_UNAVAILABLE = 14,
  NAX_DATA_LOSS = 15, NAX_CODE_MAX_ENUM = 0x7fffffff
} nax_code;

typedef enum nax_reason {
  NAX_REASON_NONE = 0, NAX_REASON_INDEX_OUT_OF_RANGE = 1, NAX_REASON_INTEGER_DIVIDE_BY_ZERO = 2,
  NAX_REASON_HBM_EXHAUSTED = 3, NAX_REASON_ENGINE_FAULT = 4, NAX_REASON_COMPILE_FAILED = 5, NAX_REASON_VERIFY_FAILED = 6,
  NAX_REASON_PARSE_FAILED = 7, NAX_REASON_BAD_ENVIRONMENT = 8, NAX_REASON_POISONED = 9, NAX_REASON_ABI_MISMATCH = 10,
  NAX_REASON_MAX_ENUM = 0x7fffffff
} nax_reason;

NAX_API nax_code nax_status_code(const nax_status* status);      /* NULL: NAX_OK */
NAX_API nax_reason nax_status_reason(const nax_status* status);
NAX_API const char* nax_status_message(const nax_status* status); /* NUL-terminated, lives as long as the status */
NAX_API void nax_status_destroy(nax_status* status);

/* ---- Versions ----------------------------------------------------------------------------------------------------- */

NAX_API const char* nax_version(void);      /* "0.1.0" */
NAX_API uint32_t nax_abi_version(void);

/* ---- Runtime ------------------------------------------------------------------------------------------------------ */

typedef enum nax_mode { NAX_MODE_DEFAULT = 0, NAX_MODE_EAGER = 1, NAX_MODE_ADAPTIVE = 2, NAX_MODE_MAX_ENUM = 0x7fffffff } nax_mode;

/* Options beat the environment; a zero or NULL field takes the environment's value, then the default. */
typedef struct nax_runtime_options {
  size_t struct_size;
  uint32_t abi_version;        /* NAX_ABI_VERSION of the caller; another major is refused */
  nax_mode mode;               /* TORCH_NEURON_ADAPTIVE */
  const char* fusion_policy;   /* NAX_FUSION_POLICY: strict, greedy, adaptive */
  const char* target;          /* NAX_TARGET: trn1, trn2, trn3 */
  const char* host_isa;        /* NAX_HOST_ISA: auto, avx2, avx512, amx */
  const char* tier;            /* NAX_TIER: auto, interpret, jit */
  const char* cache_dir;       /* NAX_CACHE_DIR; "" = memory only */
  uint64_t cache_bytes;        /* NAX_CACHE_BYTES */
  uint64_t hbm_bytes;          /* NAX_HBM_BYTES */
  int32_t num_threads;         /* NAX_NUM_THREADS */
  int32_t launch_blocking;     /* NEURON_LAUNCH_BLOCKING: 1 runs each op at once */
  const char* dump_dir;        /* NAX_DUMP_DIR: each new window is written there as text; "" = not at all */
} nax_runtime_options;

NAX_API NAX_MUST_USE nax_status* nax_runtime_create(const nax_runtime_options* options, nax_runtime** out_runtime);
NAX_API void nax_runtime_destroy(nax_runtime* runtime); /* waits for the device; buffers must have been released */

NAX_API nax_mode nax_runtime_mode(nax_runtime* runtime);
NAX_API NAX_MUST_USE nax_status* nax_runtime_set_mode(nax_runtime* runtime, nax_mode mode); /* cuts all windows */
NAX_API const char* nax_runtime_fusion_policy(nax_runtime* runtime); /* static text */
NAX_API NAX_MUST_USE nax_status* nax_runtime_set_fusion_policy(nax_runtime* runtime, const char* name);
NAX_API NAX_MUST_USE nax_status* nax_runtime_set_num_threads(nax_runtime* runtime, int32_t threads);

/* Waits for all streams. Returns the earliest deferred error by program order, once. */
NAX_API NAX_MUST_USE nax_status* nax_runtime_synchronize(nax_runtime* runtime);

/* Called on the waiting thread around every blocking wait: begin != 0 before, 0 after. The PyTorch binding releases and takes
 * the GIL there. May be called with no lock held. */
typedef void (*nax_wait_hook)(void* user, int begin);
NAX_API void nax_runtime_set_wait_hook(nax_runtime* runtime, nax_wait_hook hook, void* user);

/* Asked on the waiting thread, inside of the wait hook's pair, about every 10 ms of a wait, with no lock held; it may use the
 * runtime. Nonzero ends the wait: the waiting call returns NAX_CANCELLED. Nothing is lost: what was recorded, also by that very
 * call, goes on, and a later wait waits for it. NULL: waits are not interruptible. */
typedef int (*nax_interrupt_check)(void* user);
NAX_API void nax_runtime_set_interrupt_check(nax_runtime* runtime, nax_interrupt_check check, void* user);

/* Turns an op's origin into text ("train.py:17 in step") for error messages. Any thread, no lock held; writes at most size
 * bytes including the NUL. Without a resolver the origin is printed as a number, 0 not at all. */
typedef void (*nax_origin_resolver)(void* user, uint64_t origin, char* out_text, size_t size);
NAX_API void nax_runtime_set_origin_resolver(nax_runtime* runtime, nax_origin_resolver resolver, void* user);

typedef void (*nax_log_sink)(void* user, int level, const char* message); /* level: 0 error, 1 warning, 2 info, 3 debug */
NAX_API void nax_runtime_set_log_sink(nax_runtime* runtime, nax_log_sink sink, void* user);

/* Statistics: calls visit for each key with its value, in a fixed order. Keys as in api/docs/statistics.md. */
typedef void (*nax_stat_visitor)(void* user, const char* key, double value);
NAX_API NAX_MUST_USE nax_status* nax_runtime_visit_stats(nax_runtime* runtime, nax_stat_visitor visit, void* user);
NAX_API void nax_runtime_reset_stats(nax_runtime* runtime);

/* Counts one fallback of the binding (an op that ran on the host instead of an engine program). */
NAX_API void nax_runtime_count_fallback(nax_runtime* runtime, const char* op_name);
NAX_API NAX_MUST_USE nax_status* nax_runtime_visit_fallbacks(nax_runtime* runtime, nax_stat_visitor visit, void* user);

typedef struct nax_memory_info {
  size_t struct_size;
  uint64_t capacity_bytes;
  uint64_t charged_bytes, charged_peak_bytes;    /* live as a program without deferral would see it, plus released but pending */
  uint64_t physical_bytes, physical_peak_bytes;  /* backed by memory */
  uint64_t cached_bytes;                         /* freed, kept mapped */
  uint64_t allocations, releases, out_of_memory;
} nax_memory_info;
NAX_API NAX_MUST_USE nax_status* nax_runtime_memory_info(nax_runtime* runtime, nax_memory_info* out_info);
NAX_API void nax_runtime_reset_memory_peak(nax_runtime* runtime);
NAX_API void nax_runtime_trim_memory(nax_runtime* runtime); /* gives freed pages back */

/* ---- Buffers ------------------------------------------------------------------------------------------------------ */

/* Charges HBM. Over capacity it cuts, waits, frees the cache, and then fails with NAX_REASON_HBM_EXHAUSTED. May wait.
 * `stream` is where the buffer's releases are ordered (NULL: the default stream). Contents are undefined. */
NAX_API NAX_MUST_USE nax_status* nax_buffer_create(nax_runtime* runtime, nax_stream* stream, uint64_t bytes, nax_buffer** out_buffer);
/* Never waits, any thread. The memory lives on while recorded work needs it. */
NAX_API void nax_buffer_release(nax_buffer* buffer);
NAX_API void* nax_buffer_address(const nax_buffer* buffer); /* device address; reading it on the host faults */
NAX_API uint64_t nax_buffer_bytes(const nax_buffer* buffer);
/* The live buffer that holds a device address, or NULL. */
NAX_API nax_buffer* nax_runtime_find_buffer(nax_runtime* runtime, const void* address);
/* Waits for everything recorded on the buffer, raises its poison, and gives the host address of its memory. With
 * `for_write` the caller may write all of it and poison is cleared only by nax_buffer_clear_error. The address stays valid
 * until the buffer is released; recording on the buffer afterwards needs another map before the next host access. */
NAX_API NAX_MUST_USE nax_status* nax_buffer_map(nax_buffer* buffer, int for_write, void** out_host);
/* Snapshot copy host -> device in stream order: `source` may be reused at once. */
NAX_API NAX_MUST_USE nax_status* nax_buffer_write(nax_stream* stream, nax_buffer* buffer, uint64_t offset_bytes, const void* source, uint64_t bytes);
/* Device -> host. Waits for what the buffer depends on. */
NAX_API NAX_MUST_USE nax_status* nax_buffer_read(nax_stream* stream, nax_buffer* buffer, uint64_t offset_bytes, void* target, uint64_t bytes);
NAX_API void nax_buffer_clear_error(nax_buffer* buffer);
/* The buffer is also used by `stream`: it is not reused before that stream's work so far is done. */
NAX_API void nax_buffer_record_stream(nax_buffer* buffer, nax_stream* stream);

/* ---- Streams and events ------------------------------------------------------------------------------------------- */

NAX_API nax_stream* nax_runtime_default_stream(nax_runtime* runtime); /* lent */
NAX_API NAX_MUST_USE nax_status* nax_stream_create(nax_runtime* runtime, int32_t priority, nax_stream** out_stream);
NAX_API void nax_stream_destroy(nax_stream* stream);
NAX_API NAX_MUST_USE nax_status* nax_stream_synchronize(nax_stream* stream); /* waits; earliest deferred error of the stream, once */
NAX_API NAX_MUST_USE nax_status* nax_stream_flush(nax_stream* stream);       /* cuts the window without waiting */
NAX_API int nax_stream_query(nax_stream* stream);                            /* cuts; 1 when all work is done */

NAX_API NAX_MUST_USE nax_status* nax_event_create(nax_runtime* runtime, nax_event** out_event);
NAX_API void nax_event_destroy(nax_event* event);
NAX_API NAX_MUST_USE nax_status* nax_event_record(nax_event* event, nax_stream* stream);
NAX_API NAX_MUST_USE nax_status* nax_stream_wait_event(nax_stream* stream, nax_event* event);
NAX_API int nax_event_query(nax_event* event);
NAX_API NAX_MUST_USE nax_status* nax_event_synchronize(nax_event* event);
/* Emulated device time between two recorded events, in nanoseconds. Waits for both. */
NAX_API NAX_MUST_USE nax_status* nax_event_elapsed_ns(nax_event* start, nax_event* end, double* out_ns);

/* ---- Recording ---------------------------------------------------------------------------------------------------- */

typedef enum nax_dtype {
  NAX_INVALID_DTYPE = 0, NAX_BOOL = 1, NAX_U8 = 2, NAX_I8 = 3, NAX_I16 = 4, NAX_I32 = 5, NAX_I64 = 6, NAX_F16 = 7,
  NAX_BF16 = 8, NAX_F32 = 9, NAX_F64 = 10, NAX_U16 = 11, NAX_U32 = 12, NAX_U64 = 13, NAX_C32 = 14, NAX_C64 = 15,
  NAX_C128 = 16, NAX_F8E4M3FN = 17, NAX_F8E5M2 = 18, NAX_BYTES1 = 19, NAX_DTYPE_MAX_ENUM = 0x7fffffff
} nax_dtype;

typedef struct nax_scalar {
  uint8_t kind; /* 0: f64, 1: i64, 2: bool (in i64) */
  union { double f64; int64_t i64; } value;
} nax_scalar;

typedef enum nax_operand_class { NAX_ABSENT = 0, NAX_TENSOR = 1, NAX_SCALAR = 2, NAX_OPERAND_CLASS_MAX_ENUM = 0x7fffffff } nax_operand_class;

/* A tensor operand is a strided view by value: sizes and strides in elements, rank 0 is one element. */
typedef struct nax_operand {
  int32_t cls;   /* nax_operand_class */
  int32_t dtype; /* nax_dtype, tensors */
  nax_buffer* buffer;
  int64_t offset_bytes;
  int32_t rank;
  int32_t reserved;
  int64_t sizes[NAX_MAX_RANK];
  int64_t strides[NAX_MAX_RANK];
  nax_scalar scalar;
} nax_operand;

/* One op. Operand order and attributes as listed in nax/ops.h. Read during the call only. */
typedef struct nax_op {
  size_t struct_size;
  uint32_t id;            /* nax_op_id */
  int32_t compute_dtype;  /* common dtype after promotion; NAX_INVALID_DTYPE: derived from the inputs */
  uint32_t input_count, output_count, attr_count;
  uint32_t reserved;
  const nax_operand* inputs;
  const nax_operand* outputs;
  const int64_t* attrs;
  uint64_t origin;        /* opaque; see nax_runtime_set_origin_resolver */
} nax_op;

/* Shape and dtype of each output (cls, dtype, rank, sizes, contiguous strides); buffers and offsets untouched. */
NAX_API NAX_MUST_USE nax_status* nax_op_infer(const nax_op* op, nax_operand* out_outputs, uint32_t output_count);
/* Appends the op to the stream's window. Wrong shapes, dtypes and attributes fail here; what only data can tell is deferred. */
NAX_API NAX_MUST_USE nax_status* nax_stream_record(nax_stream* stream, const nax_op* op);
NAX_API const char* nax_op_name(uint32_t id); /* NULL where unknown */

/* ---- Engine programs ---------------------------------------------------------------------------------------------- */

NAX_API NAX_MUST_USE nax_status* nax_program_parse(const char* text, size_t length, nax_program** out_program);
NAX_API void nax_program_destroy(nax_program* program);
/* Static rules and, on the named target (NULL: trn2), what can be checked without sizes. */
NAX_API NAX_MUST_USE nax_status* nax_program_verify(const nax_program* program, const char* target);
/* The text form; writes at most size bytes including the NUL and gives the length needed. */
NAX_API NAX_MUST_USE nax_status* nax_program_text(const nax_program* program, char* out_text, size_t size, size_t* out_needed);
/* Launches in stream order. `operands` has one entry for each argument that is not scratch: tensors for views, scalars for
 * scalars. Verified against the target's SBUF and PSUM and against the buffers' bounds before it runs. */
NAX_API NAX_MUST_USE nax_status* nax_stream_launch(nax_stream* stream, const nax_program* program, const nax_operand* operands, uint32_t operand_count);
/* Emulated time of one launch with these operands, in nanoseconds. */
NAX_API NAX_MUST_USE nax_status* nax_program_time_ns(const nax_program* program, const char* target, const nax_operand* operands, uint32_t operand_count, double* out_ns);

#ifdef __cplusplus
}
#endif
#endif /* NAX_NAX_H_ */
