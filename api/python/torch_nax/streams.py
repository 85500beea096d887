"""Streams and events of the neuron device."""

import torch

from . import _C


class Stream(torch.Stream):
    """A queue of work on a device. Lower numbers are higher priority."""

    def __new__(cls, device=None, priority=0, **kwargs):
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        from .neuron import _device_index

        return super().__new__(cls, device=torch.device("neuron", _device_index(device)), priority=priority)

    def wait_event(self, event):
        event.wait(self)

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())

    def record_event(self, event=None):
        if event is None:
            event = Event()
        event.record(self)
        return event

    def __repr__(self):
        return f"torch.neuron.Stream(device={self.device}, stream_id={self.stream_id})"


class Event(torch.Event):
    """A mark in a stream. `elapsed_time` is emulated device time in milliseconds."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        return super().__new__(cls, device="neuron", enable_timing=enable_timing, blocking=blocking)

    def elapsed_time(self, end_event):
        return _C._elapsed_ms(self.event_id, end_event.event_id)


def _as_ours(stream):
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device=None):
    from .neuron import _device_index

    return _as_ours(torch._C._accelerator_getStream(_device_index(device)))


def default_stream(device=None):
    from .neuron import _device_index

    device_type = torch._C._autograd.DeviceType.PrivateUse1
    return Stream(stream_id=0, device_index=_device_index(device), device_type=int(device_type.value))


def set_stream(stream):
    """Makes a stream this thread's current stream on its device. None is ignored."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Makes a stream current for a block; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is None:
            return
        from .neuron import current_device

        self._device = current_device()
        self._before = current_stream(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(self, *exception):
        if self.stream is None:
            return
        from .neuron import set_device

        set_stream(self._before)
        set_device(self._device)


def stream(stream):
    return StreamContext(stream)


def wait_stream(stream):
    current_stream().wait_stream(stream)


def wait_event(event):
    current_stream().wait_event(event)


def record_event(event=None):
    return current_stream().record_event(event)


def query():
    """True when all work of the current stream is done."""
    return current_stream().query()
