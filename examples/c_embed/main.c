/* An application that embeds nax: no PyTorch, no Python, C11 and libnax alone.
 *
 *   1  a runtime in adaptive mode
 *   2  an MLP forward, recorded op by op: softmax(gelu(x W1 + b1) W2 + b2)
 *   3  the same numbers in plain C, compared
 *   4  an engine program from text: parsed, verified, launched, timed
 *   5  what the runtime counted
 *
 * The exit code is 0 if every number agrees. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nax/nax.h"

enum { BATCH = 4, IN = 48, HIDDEN = 64, OUT = 10, STEPS = 5 };

/* Every call that can fail gives a status; this example stops at the first. */
static void check(nax_status* status, const char* what) {
  if (!status) return;
  fprintf(stderr, "%s: %s (code %d, reason %d)\n", what, nax_status_message(status), (int)nax_status_code(status),
          (int)nax_status_reason(status));
  nax_status_destroy(status);
  exit(2);
}

typedef struct {
  nax_runtime* runtime;
  nax_stream* stream;
} device;

/* ---- Tensors: a buffer and a contiguous view of it ---------------------------------------------------------------- */

static nax_operand tensor(device* d, int32_t rank, int64_t rows, int64_t columns) {
  nax_operand t;
  memset(&t, 0, sizeof t);
  t.cls = NAX_TENSOR;
  t.dtype = NAX_F32;
  t.rank = rank;
  t.sizes[0] = rows;
  t.strides[0] = 1;
  if (rank == 2) {
    t.sizes[1] = columns;
    t.strides[0] = columns;
    t.strides[1] = 1;
  }
  check(nax_buffer_create(d->runtime, d->stream, (uint64_t)(rows * columns) * sizeof(float), &t.buffer), "create a buffer");
  return t;
}

static nax_operand upload(device* d, int32_t rank, int64_t rows, int64_t columns, const float* values) {
  nax_operand t = tensor(d, rank, rows, columns);
  check(nax_buffer_write(d->stream, t.buffer, 0, values, (uint64_t)(rows * columns) * sizeof(float)), "upload");
  return t;
}

static nax_operand number(double value) {
  nax_operand s;
  memset(&s, 0, sizeof s);
  s.cls = NAX_SCALAR;
  s.scalar.value.f64 = value;
  return s;
}

static void record(device* d, nax_op_id id, const nax_operand* inputs, uint32_t count, const int64_t* attrs, uint32_t attr_count,
                   const nax_operand* output) {
  nax_op op;
  memset(&op, 0, sizeof op);
  op.struct_size = sizeof op;
  op.id = (uint32_t)id;
  op.inputs = inputs;
  op.input_count = count;
  op.outputs = output;
  op.output_count = 1;
  op.attrs = attrs;
  op.attr_count = attr_count;
  check(nax_stream_record(d->stream, &op), nax_op_name(op.id));
}

/* softmax(gelu(x W1 + b1) W2 + b2). The temporaries are released as soon as they were recorded: those that fuse never get
 * memory. */
static nax_operand forward(device* d, nax_operand x, nax_operand w1, nax_operand b1, nax_operand w2, nax_operand b2) {
  const int64_t last_dim = 1;
  nax_operand product = tensor(d, 2, BATCH, HIDDEN), biased = tensor(d, 2, BATCH, HIDDEN), hidden = tensor(d, 2, BATCH, HIDDEN);
  nax_operand product2 = tensor(d, 2, BATCH, OUT), logits = tensor(d, 2, BATCH, OUT), out = tensor(d, 2, BATCH, OUT);
  nax_operand mm1[2] = {x, w1}, bias1[3] = {product, b1, number(1)}, mm2[2] = {hidden, w2}, bias2[3] = {product2, b2, number(1)};
  record(d, NAX_OP_MM, mm1, 2, NULL, 0, &product);
  record(d, NAX_OP_ADD, bias1, 3, NULL, 0, &biased);
  record(d, NAX_OP_GELU, &biased, 1, NULL, 0, &hidden);
  record(d, NAX_OP_MM, mm2, 2, NULL, 0, &product2);
  record(d, NAX_OP_ADD, bias2, 3, NULL, 0, &logits);
  record(d, NAX_OP_SOFTMAX, &logits, 1, &last_dim, 1, &out);
  nax_buffer_release(product.buffer);
  nax_buffer_release(biased.buffer);
  nax_buffer_release(hidden.buffer);
  nax_buffer_release(product2.buffer);
  nax_buffer_release(logits.buffer);
  return out;
}

/* ---- The same in plain C, in double precision --------------------------------------------------------------------- */

static void forward_in_c(const float* x, const float* w1, const float* b1, const float* w2, const float* b2, double* out) {
  for (int r = 0; r < BATCH; ++r) {
    double hidden[HIDDEN], logits[OUT], largest = -INFINITY, sum = 0;
    for (int h = 0; h < HIDDEN; ++h) {
      double v = b1[h];
      for (int k = 0; k < IN; ++k) v += (double)x[r * IN + k] * w1[k * HIDDEN + h];
      hidden[h] = 0.5 * v * (1 + erf(v / sqrt(2.0)));
    }
    for (int o = 0; o < OUT; ++o) {
      logits[o] = b2[o];
      for (int h = 0; h < HIDDEN; ++h) logits[o] += hidden[h] * w2[h * OUT + o];
      largest = fmax(largest, logits[o]);
    }
    for (int o = 0; o < OUT; ++o) sum += exp(logits[o] - largest);
    for (int o = 0; o < OUT; ++o) out[r * OUT + o] = exp(logits[o] - largest) / sum;
  }
}

/* ---- An engine program by hand -------------------------------------------------------------------------------------- */

static const char kProgram[] =
    "program scale_rows {      # y = relu(x) * s\n"
    "  arg x: view f32 rank 2 read\n"
    "  arg s: scalar f32\n"
    "  arg y: view f32 rank 2 write\n"
    "  nest {\n"
    "    partition r: size(x, 0)\n"
    "    free c: size(x, 1) tile 512\n"
    "    tile a: f32 [r, c]\n"
    "    tile b: f32 [r, c]\n"
    "    a = dma_copy(x[r * stride(x, 0) + c * stride(x, 1)])\n"
    "    b = activation relu(a)\n"
    "    b = tensor_scalar multiply(b, s)\n"
    "    y[r * stride(y, 0) + c * stride(y, 1)] = dma_copy(b)\n"
    "  }\n"
    "}\n";

static int run_program(device* d, nax_operand x, const float* host_x) {
  nax_program* program = NULL;
  nax_operand y = tensor(d, 2, BATCH, IN), operands[3] = {x, number(2.5), y};
  float out[BATCH * IN];
  double ns = 0;
  int wrong = 0;
  check(nax_program_parse(kProgram, strlen(kProgram), &program), "parse");
  check(nax_program_verify(program, "trn2"), "verify");
  check(nax_stream_launch(d->stream, program, operands, 3), "launch");
  check(nax_buffer_read(d->stream, y.buffer, 0, out, sizeof out), "read");
  check(nax_program_time_ns(program, "trn2", operands, 3, &ns), "time");
  for (int i = 0; i < BATCH * IN; ++i) wrong += out[i] != (host_x[i] > 0 ? host_x[i] : 0.0f) * 2.5f;
  printf("engine program: %d of %d values wrong, %.0f ns on the emulated core\n", wrong, BATCH * IN, ns);
  nax_program_destroy(program);
  nax_buffer_release(y.buffer);
  return wrong;
}

static void print_stat(void* user, const char* key, double value) {
  (void)user;
  if (value != 0) printf("  %-28s %.6g\n", key, value);
}

int main(void) {
  float x[BATCH * IN], w1[IN * HIDDEN], b1[HIDDEN], w2[HIDDEN * OUT], b2[OUT], got[BATCH * OUT];
  double want[BATCH * OUT], worst = 0;
  uint32_t seed = 1;
  float* arrays[5] = {x, w1, b1, w2, b2};
  const int counts[5] = {BATCH * IN, IN * HIDDEN, HIDDEN, HIDDEN * OUT, OUT};
  for (int a = 0; a < 5; ++a)
    for (int i = 0; i < counts[a]; ++i) {
      seed = seed * 1664525u + 1013904223u;
      arrays[a][i] = (float)(int32_t)seed / 2147483648.0f * (a == 1 || a == 3 ? 0.25f : 1.0f);
    }

  nax_runtime_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.abi_version = NAX_ABI_VERSION;
  options.mode = NAX_MODE_ADAPTIVE;
  device d;
  check(nax_runtime_create(&options, &d.runtime), "create a runtime");
  d.stream = nax_runtime_default_stream(d.runtime);
  printf("nax %s, policy %s\n", nax_version(), nax_runtime_fusion_policy(d.runtime));

  nax_operand dx = upload(&d, 2, BATCH, IN, x), dw1 = upload(&d, 2, IN, HIDDEN, w1), db1 = upload(&d, 1, HIDDEN, 1, b1);
  nax_operand dw2 = upload(&d, 2, HIDDEN, OUT, w2), db2 = upload(&d, 1, OUT, 1, b2);
  for (int step = 0; step < STEPS; ++step) {
    nax_operand out = forward(&d, dx, dw1, db1, dw2, db2);
    check(nax_buffer_read(d.stream, out.buffer, 0, got, sizeof got), "read");
    nax_buffer_release(out.buffer);
  }
  check(nax_runtime_synchronize(d.runtime), "synchronize");

  forward_in_c(x, w1, b1, w2, b2, want);
  for (int r = 0; r < BATCH; ++r) {
    printf("row %d:", r);
    for (int o = 0; o < OUT; ++o) {
      printf(" %.5f", (double)got[r * OUT + o]);
      const double error = fabs(got[r * OUT + o] - want[r * OUT + o]);
      if (!(error <= worst)) worst = error; /* also where it is NaN */
    }
    printf("\n");
  }
  printf("MLP and softmax: largest difference from plain C %.2g\n", worst);
  const int wrong = run_program(&d, dx, x);

  printf("statistics:\n");
  check(nax_runtime_visit_stats(d.runtime, print_stat, NULL), "statistics");
  nax_buffer_release(dx.buffer);
  nax_buffer_release(dw1.buffer);
  nax_buffer_release(db1.buffer);
  nax_buffer_release(dw2.buffer);
  nax_buffer_release(db2.buffer);
  nax_runtime_destroy(d.runtime);

  const int ok = worst < 2e-6 && wrong == 0;
  printf("%s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}
