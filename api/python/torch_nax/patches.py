"""Changes to torch where 2.13 leaves a device no hook of its own."""

import importlib.util
import sys
import types

import torch

from . import _C


def apply():
    _patch_printing()
    _patch_dlpack()
    _patch_num_threads()
    _register_sharing()
    _register_torch_neuronx()


def _patch_printing():
    """repr() looks at every element: on a copy in host memory, not op by op on the device."""
    from torch import _tensor_str

    original = _tensor_str._tensor_str

    def tensor_str(self, indent):
        return original(self.cpu() if self.device.type == "neuron" else self, indent)

    _tensor_str._tensor_str = tensor_str


def _patch_dlpack():
    """torch compares the device's name with the literal "privateuse1"."""
    from torch.utils.dlpack import DLDeviceType

    original = torch.Tensor.__dlpack_device__

    def __dlpack_device__(self):
        if self.device.type == "neuron":
            return (DLDeviceType.kDLExtDev, self.device.index or 0)
        return original(self)

    __dlpack_device__.__doc__ = original.__doc__
    torch.Tensor.__dlpack_device__ = __dlpack_device__


def _patch_num_threads():
    """The engine uses as many threads as torch, unless NAX_NUM_THREADS says otherwise."""
    import os

    original = torch.set_num_threads

    def set_num_threads(num):
        original(num)
        if not os.environ.get("NAX_NUM_THREADS"):
            _C._set_num_threads(num)

    set_num_threads.__doc__ = original.__doc__
    torch.set_num_threads = set_num_threads


def _rebuild(host, requires_grad, parameter):
    tensor = host.to("neuron")
    if parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _reduce(tensor):
    host = tensor.detach().cpu().contiguous()
    return _rebuild, (host, tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))


def _register_sharing():
    """torch.multiprocessing sends a device tensor as a host tensor in shared memory."""
    from multiprocessing.reduction import ForkingPickler

    import torch.multiprocessing.reductions as reductions

    for cls in (torch.Tensor, torch.nn.Parameter):
        original = ForkingPickler._extra_reducers.get(cls, reductions.reduce_tensor)

        def reduce(tensor, original=original):
            return _reduce(tensor) if tensor.device.type == "neuron" else original(tensor)

        ForkingPickler.register(cls, reduce)


def _register_torch_neuronx():
    """Programs for TorchNeuron look for `torch_neuronx`; where it is absent, this device answers to the name."""
    if "torch_neuronx" in sys.modules or importlib.util.find_spec("torch_neuronx") is not None:
        return
    from . import neuron

    shim = types.ModuleType("torch_neuronx", "The neuron device of torch_nax under the name of TorchNeuron's package.")
    shim.__spec__ = importlib.util.spec_from_loader("torch_neuronx", loader=None)
    shim.__version__ = "0.0.0+nax"
    for name in neuron.__all__:
        setattr(shim, name, getattr(neuron, name))
    shim.memory = neuron.memory
    shim.get_fallback_ops = lambda: list(neuron.fallback_ops())
    shim.clear_op_tracking = neuron.reset_stats
    shim.is_neuron_runtime_initialized = neuron.is_initialized
    sys.modules["torch_neuronx"] = shim
