#!/usr/bin/env bash
# Configures and builds one preset (default: release). Quiet while all goes well.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
preset=${1:-release}

mkdir -p "build/$preset"
log=build/$preset/configure.log
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  printf '[build] error: configuring preset %s failed\n' "$preset" >&2
  exit 1
fi
# Sources that include torch take up to 2 GiB each to compile.
if [ -z "${CMAKE_BUILD_PARALLEL_LEVEL:-}" ]; then
  by_memory=$(awk '/^MemAvailable/ { n = int($2 / 2097152); print n < 1 ? 1 : n }' /proc/meminfo)
  by_cores=$(nproc)
  export CMAKE_BUILD_PARALLEL_LEVEL=$((by_cores < by_memory ? by_cores : by_memory))
fi
cmake --build --preset "$preset"
