// What is known about the cores that programs can be written for. Every number names its source:
// keys S1..S19 are those of the facts page (vendor documents and measurements); "calibrated" marks
// constants fitted to published measurements, with the fit. Thread: constant data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "device/base/hash.h"
#include "device/base/status.h"

namespace nax {

struct TargetInfo {
  std::string_view name;        // trn1, trn2, trn3
  std::string_view generation;  // the core's, in the vendor's words

  // Memories of one core.
  int64_t sbuf_partition_bytes;         // physical
  int64_t sbuf_usable_partition_bytes;  // what a program may use
  int psum_banks;
  int64_t psum_bank_bytes;  // a partition
  int64_t hbm_bytes;        // a core's share of the chip
  double hbm_bytes_per_ns;  // a core's share

  // Clocks, GHz.
  double pe_ghz, act_ghz, dve_ghz, pool_ghz;

  // Instruction costs, in cycles of the engine unless noted.
  int min_interval;          // least cycles between two instructions of one engine
  int static_cycles;         // latency on top of the issue interval: until a result can be read
  int pool_start;            // POOL's start-up of iota and the like
  double reciprocal_factor;  // DVE cycles an element for reciprocal and divide
  double
      software_factor;  // POOL cycles an element for functions that are a sequence of instructions
  double partition_reduce_factor;  // POOL cycles an element for a reduction over 128 partitions
  bool dve_fast_modes;             // 2x and 4x modes for 16-bit types
  bool act_fast_16bit;             // ACT handles two 16-bit elements a cycle for copies
  int free_size_sbuf;              // elements a partition that one instruction may touch
  int free_size_psum;

  // PE.
  int pe_rows, pe_columns, pe_moving;  // K, M and N of one nc_matmul
  int pe_pass_overhead;                // cycles a pass on top of the columns
  int pe_fp32_passes;
  double pe_throttle;  // share of the clock while cold; 1: never throttled
  double pe_warm_ns;   // activity until the full clock
  double pe_bf16_tflops;

  // DMA.
  int dma_engines;
  double dma_bytes_per_ns;       // one engine, practical
  double dma_descriptor_ns;      // least time of a descriptor
  int64_t dma_descriptor_bytes;  // largest descriptor
  int dma_burst_bytes;           // least bytes of HBM that one contiguous piece costs
  bool dma_transpose;            // 2-byte elements, at 90% of the rate of a copy
  double dma_start_ns;           // semaphore to start
  double dma_dge_ns;             // descriptor generation; 0 where descriptors lie ready in memory
  double semaphore_ns;           // from one engine's signal to another's start
};

inline constexpr std::string_view kDefaultTarget = "trn2";

// Null where the name is unknown.
const TargetInfo* find_target(std::string_view name);

// The same with an error that lists the allowed names.
StatusOr<const TargetInfo*> target_or_error(std::string_view name);

// "trn1, trn2, trn3"
std::string target_names();

// Changes whenever any number of the tables does: part of the build fingerprint.
Hash128 target_tables_hash();

// Every number of a table by name with its source, one a line, for `nax info`.
std::string describe_target(const TargetInfo& target);

}  // namespace nax
