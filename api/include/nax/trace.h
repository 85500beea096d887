/* Tracing: what the runtime did with the recorded ops, for tools. See nax/nax.h for the conventions.
 *
 * Structures passed to a callback live until it returns; they start with struct_size, and later versions append fields. Text is
 * never NULL.
 */
#ifndef NAX_TRACE_H_
#define NAX_TRACE_H_

#include "nax/nax.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nax_trace_op {
  size_t struct_size;
  const char* text;      /* "add(f32[16, 4], f32[4], 2) -> f32[16, 4]" */
  const char* origin;    /* the origin resolver's text; "" where unknown */
  const char* reason;    /* why it is not in the region of an earlier op; "" where it is */
  uint64_t sequence;     /* program order on the stream, from 1 */
  uint32_t region;       /* of the window */
  int32_t on_chip;       /* 1: its results are dead temporaries that never got memory */
} nax_trace_op;

/* Ops that became one engine program. */
typedef struct nax_trace_region {
  size_t struct_size;
  const char* program;   /* its name; "" where nothing had to run */
  uint32_t op_count;
  int32_t compiled;      /* 1: machine code was there when it ran; 0: interpreted */
  double device_ns;      /* emulated time */
  uint64_t bytes_together, bytes_apart; /* of the operands: of the program, and of its ops run one by one */
} nax_trace_region;

typedef struct nax_trace_window {
  size_t struct_size;
  uint64_t number;       /* of this trace, from 0, in the order of execution */
  int32_t stream;
  uint32_t dead_temporaries;
  const char* cut;       /* why the window ended: a reason of the "cuts." statistics */
  const char* policy;
  const char* rejected;  /* why the policy's proposal was replaced by unfused order; "" where it was not */
  uint32_t op_count, region_count; /* a program launched by nax_stream_launch: no op, one region */
  const nax_trace_op* const* ops;
  const nax_trace_region* const* regions;
} nax_trace_window;

typedef struct nax_trace_fallback {
  size_t struct_size;
  const char* name;      /* "aten::sort.values_stable" */
  const char* origin;
  int32_t stream;
  uint64_t sequence;     /* of the op recorded before it on the stream */
} nax_trace_fallback;

/* Callbacks come from any thread, one at a time, with a lock held: they must be short and must not call nax functions. */
typedef struct nax_trace_options {
  size_t struct_size;
  void (*on_window)(void* user, const nax_trace_window* window);       /* after it ran */
  void (*on_fallback)(void* user, const nax_trace_fallback* fallback); /* of nax_stream_count_fallback */
  void* user;
} nax_trace_options;

/* Ends the present trace, if any, once everything recorded before is in it, and starts another unless `options` is NULL.
 * Cuts all windows and waits; raises no deferred error. Afterwards the earlier trace's callbacks are not called any more. */
NAX_API NAX_MUST_USE nax_status* nax_runtime_set_trace(nax_runtime* runtime, const nax_trace_options* options);

/* Counts one fallback, as nax_runtime_count_fallback does, and tells the trace where in the program it is. */
NAX_API void nax_stream_count_fallback(nax_stream* stream, const char* op_name, uint64_t origin);

/* Version, build, host, settings in force, cache folder, target tables: calls visit for each, in a fixed order, with text that
 * lives during the call. Keys: "version", "abi", "build", "host.<what>", "setting.<variable>", "cache.<what>",
 * "target.<name>.<what>". */
typedef void (*nax_info_visitor)(void* user, const char* key, const char* text);
NAX_API NAX_MUST_USE nax_status* nax_runtime_visit_info(nax_runtime* runtime, nax_info_visitor visit, void* user);

typedef enum nax_arg_kind { NAX_ARG_VIEW = 0, NAX_ARG_SCALAR = 1, NAX_ARG_SEED = 2, NAX_ARG_KIND_MAX_ENUM = 0x7fffffff } nax_arg_kind;
typedef struct nax_program_arg {
  size_t struct_size;    /* the caller's sizeof, set before the call */
  int32_t kind;          /* nax_arg_kind */
  int32_t dtype;         /* nax_dtype */
  int32_t rank;          /* views */
  int32_t read, written; /* views: 1 where the program reads, writes them */
} nax_program_arg;
/* What nax_stream_launch takes as operand `index`. NAX_NOT_FOUND past the last one. */
NAX_API NAX_MUST_USE nax_status* nax_program_describe_arg(const nax_program* program, uint32_t index, nax_program_arg* out_arg);

#ifdef __cplusplus
}
#endif
#endif /* NAX_TRACE_H_ */
