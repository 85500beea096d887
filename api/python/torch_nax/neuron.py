"""`torch.neuron`: the emulated NeuronCore as a PyTorch device."""

import contextlib
import threading

import torch

from . import _C, memory
from .memory import (  # noqa: F401
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from .random import (  # noqa: F401
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from .streams import (  # noqa: F401
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    query,
    record_event,
    set_stream,
    stream,
    wait_event,
    wait_stream,
)

_initialized = False
_lock = threading.Lock()


# --- devices -----------------------------------------------------------------------------------------------------------


def _lazy_init():
    """Called by PyTorch before the first tensor is made on the device."""
    global _initialized
    if _initialized and not _is_in_bad_fork():
        return
    with _lock:
        _C._init()
        _initialized = True


def init():
    _lazy_init()


def is_initialized():
    return _initialized and not _is_in_bad_fork()


def is_available():
    return _C._device_count() > 0


def device_count():
    return _C._device_count()


def current_device():
    return _C._current_device()


def _device_index(device=None, optional=True):
    if device is None:
        return current_device()
    if isinstance(device, int):
        return current_device() if device < 0 else device
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "neuron":
            raise ValueError(f"expected a neuron device, got {device}")
        return current_device() if device.index is None else device.index
    index = getattr(device, "idx", None)
    if isinstance(index, int):
        return index
    raise ValueError(f"expected a neuron device or its index, got {device!r}")


_get_device_index = _device_index


def set_device(device):
    index = _device_index(device)
    if index >= 0:
        _C._set_device(index)


def synchronize(device=None):
    """Waits for all work of a device. Raises its earliest deferred error, once."""
    _lazy_init()
    _C._synchronize(_device_index(device))


def get_device_name(device=None):
    return f"neuron:{_device_index(device)}"


class _Properties:
    """name, total_memory (bytes)."""

    def __init__(self, name, total_memory):
        self.name = name
        self.total_memory = total_memory

    def __repr__(self):
        return f"_NeuronDeviceProperties(name='{self.name}', total_memory={self.total_memory // 2**20}MB)"


def get_device_properties(device=None):
    _lazy_init()
    index = _device_index(device)
    return _Properties(get_device_name(index), _C._memory_info(index)["capacity_bytes"])


class device:
    """Makes a device current for a block."""

    def __init__(self, device):
        self.idx = _device_index(device)
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = current_device()
        if self.idx != self.prev_idx:
            set_device(self.idx)

    def __exit__(self, *exception):
        if self.idx != self.prev_idx:
            set_device(self.prev_idx)
        return False


class device_of(device):
    """Makes the device of a tensor current for a block."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.device.type == "neuron" else -1)


def _sleep(cycles):
    """Kept for programs that call it: the emulated device does no busy waiting."""


def is_bf16_supported(including_emulation=True):
    return True


def get_amp_supported_dtype():
    return [torch.float32, torch.float16, torch.bfloat16]


def _is_in_bad_fork():
    return _C._is_in_bad_fork()


def current_blas_handle():
    raise NotImplementedError("the neuron device has no BLAS handle")


# --- execution ---------------------------------------------------------------------------------------------------------


def mode():
    """'eager': each op runs at once. 'adaptive': ops are recorded, fused and compiled."""
    return _C._mode()


def set_mode(mode):
    _C._set_mode(mode if isinstance(mode, str) else repr(mode))  # a wrong type gets the list of names, too


@contextlib.contextmanager
def adaptive(policy=None):
    """Records and fuses ops in a block, with the named fusion policy if one is given."""
    before, before_policy = _C._mode(), _C._fusion_policy()
    if policy is not None:
        _C._set_fusion_policy(policy)
    try:
        _C._set_mode("adaptive")
        yield
    finally:
        _C._set_mode(before)
        if policy is not None:
            _C._set_fusion_policy(before_policy)


def fusion_policy():
    return _C._fusion_policy()


def set_fusion_policy(name):
    _C._set_fusion_policy(name if isinstance(name, str) else repr(name))


def stats():
    """Counters of the runtime by name, since the start or the last reset_stats()."""
    return _C._stats()


def reset_stats():
    _C._reset_stats()


def fallback_ops():
    """How often each op ran on the CPU for want of a lowering."""
    return _C._fallback_ops()


def get_dynamo_metrics():
    return {}


def reset_dynamo_metrics():
    pass


__all__ = [name for name in dir() if not name.startswith("_") and name not in ("contextlib", "threading", "torch")]
