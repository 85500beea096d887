"""The `neuron` device of PyTorch: adaptive-eager execution on an emulated AWS Trainium NeuronCore.

`import torch` loads this package by its entry point; nothing has to be imported by hand. See `torch.neuron`.
"""

import sys
import warnings

__version__ = "0.1.0"


def _register():
    import torch

    from . import _C  # noqa: F401  (registers allocator, guard, hooks and kernels)
    from . import neuron, patches

    torch.utils.rename_privateuse1_backend("neuron")
    torch._register_device_module("neuron", neuron)
    sys.modules["torch.neuron"] = neuron
    sys.modules["torch.neuron.memory"] = neuron.memory
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    _C._register_fork_handler()
    patches.apply()


_loaded = None  # True, or the reason why not


def _autoload():
    """Entry point of group `torch.backends`. A failure here must leave torch usable."""
    global _loaded
    if _loaded is not None:
        return
    try:
        _register()
        _loaded = True
    except Exception as error:  # whatever it is, `import torch` must go on
        _loaded = error
        warnings.warn(f"the neuron device is not available: {type(error).__name__}: {error}", stacklevel=2)


import torch  # noqa: E402  (autoloads this package, if torch was not imported before)

if _loaded is None and "torch_nax" in sys.modules and hasattr(torch, "_register_device_module"):
    _autoload()
