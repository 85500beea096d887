#include "device/targets/target.h"

#include <charconv>

namespace nax {
namespace {

// Sources of all columns are listed with the fields in kFields below; here stands what differs or
// was decided.
//
// hbm_bytes, hbm_bytes_per_ns: chip figures divided by cores (S1): trn1 32 GiB and 820 GB/s by 2;
// trn2 96 GiB by 8, a stack of about 720 GB/s by 2 cores; trn3 144 GiB and 4.8 TB/s by 8.
// dma_bytes_per_ns: practical rate (S4). Measured kernels on trn1 reach up to 294 GB/s over 16
// engines against 272 by this figure, so it is a soft ceiling and the model errs to the slow side.
// pe_pass_overhead: calibrated. trn1: the optimised matmul tutorial (6.97 ms, S5) and two fp32
// kernels (S14) each solve to 83 to 85 cycles. trn2: the fp32 tutorial (28.16 ms PE-active, S5)
// solves to 4. trn3 has no public measurement: trn2's. reciprocal_factor: the documents say 8 (S3);
// a measured silu on trn1 (S14) fits 2.4. trn2, trn3: no measurement, documents. software_factor:
// no source. POOL's 8 cores have 16 fp32 lanes each, as many as partitions; a polynomial with range
// reduction is about 16 vector instructions an element.
// partition_reduce_factor: no source. Each of POOL's 8 cores folds its 16 partitions, then the
// cores combine. semaphore_ns: no source; the only anchor is the dependent chain of static_cycles,
// which crosses no engine.
constexpr TargetInfo kTargets[] = {
    {
        .name = "trn1",
        .generation = "NeuronCore-v2",
        .sbuf_partition_bytes = 192 * 1024,
        .sbuf_usable_partition_bytes = 180224,
        .psum_banks = 8,
        .psum_bank_bytes = 2048,
        .hbm_bytes = int64_t{16} << 30,
        .hbm_bytes_per_ns = 410,
        .pe_ghz = 2.8,
        .act_ghz = 1.4,
        .dve_ghz = 1.12,
        .pool_ghz = 1.4,
        .min_interval = 64,
        .static_cycles = 200,
        .pool_start = 150,
        .reciprocal_factor = 2.4,
        .software_factor = 16,
        .partition_reduce_factor = 8,
        .dve_fast_modes = false,
        .act_fast_16bit = false,
        .free_size_sbuf = 65536,
        .free_size_psum = 4096,
        .pe_rows = 128,
        .pe_columns = 128,
        .pe_moving = 512,
        .pe_pass_overhead = 85,
        .pe_fp32_passes = 4,
        .pe_throttle = 1.0,
        .pe_warm_ns = 0,
        .pe_bf16_tflops = 92,
        .dma_engines = 16,
        .dma_bytes_per_ns = 17,
        .dma_descriptor_ns = 107,
        .dma_descriptor_bytes = 65536,
        .dma_burst_bytes = 64,
        .dma_transpose = false,
        .dma_start_ns = 1300,
        .dma_dge_ns = 0,
        .semaphore_ns = 30,
    },
    {
        .name = "trn2",
        .generation = "NeuronCore-v3",
        .sbuf_partition_bytes = 224 * 1024,
        .sbuf_usable_partition_bytes = 212984,
        .psum_banks = 8,
        .psum_bank_bytes = 2048,
        .hbm_bytes = int64_t{12} << 30,
        .hbm_bytes_per_ns = 360,
        .pe_ghz = 2.4,
        .act_ghz = 1.2,
        .dve_ghz = 0.96,
        .pool_ghz = 1.2,
        .min_interval = 64,
        .static_cycles = 200,
        .pool_start = 150,
        .reciprocal_factor = 8,
        .software_factor = 16,
        .partition_reduce_factor = 8,
        .dve_fast_modes = true,
        .act_fast_16bit = false,
        .free_size_sbuf = 65536,
        .free_size_psum = 4096,
        .pe_rows = 128,
        .pe_columns = 128,
        .pe_moving = 512,
        .pe_pass_overhead = 4,
        .pe_fp32_passes = 4,
        .pe_throttle = 0.5,
        .pe_warm_ns = 3000,
        .pe_bf16_tflops = 79,
        .dma_engines = 16,
        .dma_bytes_per_ns = 23,
        .dma_descriptor_ns = 107,
        .dma_descriptor_bytes = 65536,
        .dma_burst_bytes = 64,
        .dma_transpose = true,
        .dma_start_ns = 1300,
        .dma_dge_ns = 600,
        .semaphore_ns = 35,
    },
    {
        .name = "trn3",
        .generation = "NeuronCore-v4",
        .sbuf_partition_bytes = 256 * 1024,
        .sbuf_usable_partition_bytes = 245752,
        .psum_banks = 8,
        .psum_bank_bytes = 2048,
        .hbm_bytes = int64_t{18} << 30,
        .hbm_bytes_per_ns = 600,
        .pe_ghz = 2.4,
        .act_ghz = 1.2,
        .dve_ghz = 1.2,
        .pool_ghz = 1.2,
        .min_interval = 64,
        .static_cycles = 200,
        .pool_start = 150,
        .reciprocal_factor = 8,
        .software_factor = 16,
        .partition_reduce_factor = 8,
        .dve_fast_modes = true,
        .act_fast_16bit = true,
        .free_size_sbuf = 65536,
        .free_size_psum = 4096,
        .pe_rows = 128,
        .pe_columns = 128,
        .pe_moving = 512,
        .pe_pass_overhead = 4,
        .pe_fp32_passes = 4,
        .pe_throttle = 0.5,
        .pe_warm_ns = 3000,
        .pe_bf16_tflops = 79,
        .dma_engines = 16,
        .dma_bytes_per_ns = 33,
        .dma_descriptor_ns = 107,
        .dma_descriptor_bytes = 65536,
        .dma_burst_bytes = 64,
        .dma_transpose = true,
        .dma_start_ns = 1300,
        .dma_dge_ns = 600,
        .semaphore_ns = 35,
    },
};

struct Field {
  const char* name;
  const char* source;
  double (*value)(const TargetInfo&);
};

#define NAX_FIELD(field, source) \
  {#field, source, [](const TargetInfo& t) { return static_cast<double>(t.field); }}
constexpr Field kFields[] = {
    NAX_FIELD(sbuf_partition_bytes, "S1"),
    NAX_FIELD(sbuf_usable_partition_bytes, "S13"),
    NAX_FIELD(psum_banks, "S1"),
    NAX_FIELD(psum_bank_bytes, "S1"),
    NAX_FIELD(hbm_bytes, "S1, chip divided by cores"),
    NAX_FIELD(hbm_bytes_per_ns, "S1, chip divided by cores"),
    NAX_FIELD(pe_ghz, "S1"),
    NAX_FIELD(act_ghz, "S1"),
    NAX_FIELD(dve_ghz, "S1"),
    NAX_FIELD(pool_ghz, "S1"),
    NAX_FIELD(min_interval, "S3, S4"),
    NAX_FIELD(static_cycles,
              "S1: a dependent chain has a period of 264 cycles, 64 are the interval"),
    NAX_FIELD(pool_start, "S3"),
    NAX_FIELD(reciprocal_factor, "trn1: calibrated on S14 silu; else S3"),
    NAX_FIELD(software_factor, "estimate, no source"),
    NAX_FIELD(partition_reduce_factor, "estimate, no source"),
    NAX_FIELD(dve_fast_modes, "S1"),
    NAX_FIELD(act_fast_16bit, "S1"),
    NAX_FIELD(free_size_sbuf, "S2"),
    NAX_FIELD(free_size_psum, "S2"),
    NAX_FIELD(pe_rows, "S1, S2"),
    NAX_FIELD(pe_columns, "S1, S2"),
    NAX_FIELD(pe_moving, "S2"),
    NAX_FIELD(pe_pass_overhead, "calibrated on S5, S14; trn3: trn2's"),
    NAX_FIELD(pe_fp32_passes, "S1, S3"),
    NAX_FIELD(pe_throttle, "S8"),
    NAX_FIELD(pe_warm_ns, "S8"),
    NAX_FIELD(pe_bf16_tflops, "S1"),
    NAX_FIELD(dma_engines, "S1"),
    NAX_FIELD(dma_bytes_per_ns, "S4, practical"),
    NAX_FIELD(dma_descriptor_ns, "fitted to S4's efficiency curve"),
    NAX_FIELD(dma_descriptor_bytes, "S10"),
    NAX_FIELD(dma_burst_bytes, "estimate: a burst of HBM"),
    NAX_FIELD(dma_transpose, "S1"),
    NAX_FIELD(dma_start_ns, "S4"),
    NAX_FIELD(dma_dge_ns, "S4"),
    NAX_FIELD(semaphore_ns, "estimate, no source"),
};
#undef NAX_FIELD

std::string number_text(double v) {  // independent of the locale, exact
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, v).ptr};
}

}  // namespace

const TargetInfo* find_target(std::string_view name) {
  for (const TargetInfo& t : kTargets)
    if (t.name == name) return &t;
  return nullptr;
}

std::string target_names() {
  std::string out;
  for (const TargetInfo& t : kTargets) out += (out.empty() ? "" : ", ") + std::string(t.name);
  return out;
}

StatusOr<const TargetInfo*> target_or_error(std::string_view name) {
  if (const TargetInfo* t = find_target(name)) return t;
  return invalid_argument("unknown target '" + std::string(name.substr(0, 40)) +
                          "'; allowed: " + target_names());
}

Hash128 target_tables_hash() {
  std::string bytes;
  for (const TargetInfo& t : kTargets) {
    bytes += std::string(t.name) + '\n';
    for (const Field& f : kFields)
      bytes += std::string(f.name) + '=' + number_text(f.value(t)) + '\n';
  }
  // Two 64-bit checksums: a fingerprint is not a key, set_hash_bits must not cut it.
  return {checksum64(bytes.data(), bytes.size(), 1), checksum64(bytes.data(), bytes.size(), 2)};
}

std::string describe_target(const TargetInfo& target) {
  std::string out = std::string(target.name) + " (" + std::string(target.generation) + ")\n";
  for (const Field& f : kFields) {
    out += "  " + std::string(f.name) + " = " + number_text(f.value(target)) + "  [" + f.source +
           "]\n";
  }
  return out;
}

}  // namespace nax
