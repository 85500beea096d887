"""Random state. A device's generator is a Philox seed and offset: 16 bytes."""

import torch

from . import _C

_generators = {}


def _index(device):
    from .neuron import _device_index

    return _device_index(device)


def _generator(device=None):
    index = _index(device)
    if index not in _generators:
        _generators[index] = _C._default_generator(index)
    return _generators[index]


def manual_seed(seed):
    _generator().manual_seed(int(seed))


def manual_seed_all(seed):
    for index in range(_C._device_count()):
        _generator(index).manual_seed(int(seed))


def seed():
    _generator().seed()


def seed_all():
    value = _generator(0).seed()
    manual_seed_all(value)


def initial_seed():
    return _generator().initial_seed()


def get_rng_state(device=None):
    return _generator(device).get_state()


def set_rng_state(new_state, device=None):
    _generator(device).set_state(new_state.to("cpu", torch.uint8).contiguous())


def get_rng_state_all():
    return [get_rng_state(index) for index in range(_C._device_count())]


def set_rng_state_all(new_states):
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
