"""Device memory: what the program holds, as if nothing were deferred, and what the emulated HBM has."""

import torch

from . import _C

_BYTES = ("allocated_bytes", "reserved_bytes", "active_bytes")


def _index(device):
    from .neuron import _device_index

    return _device_index(device)


def memory_stats(device=None):
    """Counters as a flat dict: `allocated_bytes.current`, `.peak`, `.allocated`, `.freed`, and so on."""
    index = _index(device)
    stats = torch._C._accelerator_getDeviceStats(index)
    flat = {}
    for key in _BYTES:
        for field, value in stats[key]["all"].items():
            flat[f"{key}.{field}"] = value
    flat["num_alloc_retries"] = stats["num_alloc_retries"]
    flat["num_ooms"] = stats["num_ooms"]
    flat["num_tensor_frees"] = stats["allocation"]["all"]["freed"]
    flat["allocation_requests"] = stats["allocation"]["all"]["allocated"]
    return flat


def memory_allocated(device=None):
    return memory_stats(device)["allocated_bytes.current"]


def max_memory_allocated(device=None):
    return memory_stats(device)["allocated_bytes.peak"]


def memory_reserved(device=None):
    return memory_stats(device)["reserved_bytes.current"]


def max_memory_reserved(device=None):
    return memory_stats(device)["reserved_bytes.peak"]


def reset_peak_memory_stats(device=None):
    torch._C._accelerator_resetPeakStats(_index(device))


def reset_accumulated_memory_stats(device=None):
    torch._C._accelerator_resetAccumulatedStats(_index(device))


def mem_get_info(device=None):
    """(free, total) bytes of the device's HBM."""
    info = _C._memory_info(_index(device))
    return max(0, info["capacity_bytes"] - info["charged_bytes"]), info["capacity_bytes"]


def empty_cache():
    """Gives freed pages back to the system."""
    torch._C._accelerator_emptyCache()


def memory_summary(device=None, abbreviated=False):
    index = _index(device)
    stats = memory_stats(index)
    info = _C._memory_info(index)
    rows = [("live", stats["allocated_bytes.current"]), ("live, peak", stats["allocated_bytes.peak"])]
    if not abbreviated:
        rows += [
            ("charged (live and pending)", info["charged_bytes"]),
            ("backed by memory", info["physical_bytes"]),
            ("backed by memory, peak", info["physical_peak_bytes"]),
            ("cached", info["cached_bytes"]),
        ]
    rows.append(("capacity", info["capacity_bytes"]))
    lines = [f"neuron:{index} memory"]
    lines += [f"  {name:<28}{value / 2**20:12.2f} MiB" for name, value in rows]
    return "\n".join(lines)
