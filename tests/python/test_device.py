"""The device as PyTorch sees it: names, devices, streams, events, memory, threads, forks."""

import threading

import pytest
import torch


def test_registered_and_named():
    assert torch.neuron.is_available()
    assert torch.accelerator.current_accelerator().type == "neuron"
    x = torch.zeros(2, device="neuron")
    assert str(x.device) == "neuron:0" and x.is_neuron
    assert torch.ones(2).neuron().device == x.device
    assert torch.nn.Linear(2, 2).neuron().weight.is_neuron
    assert torch.neuron.get_device_name() == "neuron:0"
    assert torch.neuron.get_device_properties().total_memory > 0


def test_import_starts_nothing(run_python):
    done = run_python(
        """
        import threading, torch
        assert not torch.neuron.is_initialized()
        assert torch.neuron.is_available() and torch.neuron.device_count() == 1
        assert not torch.neuron.is_initialized() and threading.active_count() == 1
        torch.zeros(1, device="neuron")
        assert torch.neuron.is_initialized()
        print("fine")
        """
    )
    assert done.out.strip() == "fine", done.err


def test_broken_package_leaves_torch_usable(run_python):
    done = run_python(
        """
        import sys
        class Break:
            def find_spec(self, name, path=None, target=None):
                if name == "torch_nax._C":
                    raise ImportError("the module is damaged")
        sys.meta_path.insert(0, Break())
        import torch
        print(torch.ones(2).sum().item())
        """
    )
    assert done.out.strip() == "2.0"
    assert "the neuron device is not available" in done.err and "damaged" in done.err


def test_torch_neuronx_is_importable(run_python):
    done = run_python(
        """
        import importlib.util, torch, torch_neuronx
        assert importlib.util.find_spec("torch_neuronx") is not None
        x = torch.ones(3, device="neuron").sort()[0]
        torch_neuronx.synchronize()
        print(torch_neuronx.get_fallback_ops())
        """
    )
    assert "aten::sort.values_stable" in done.out, done.err


@pytest.mark.parametrize("device", ["neuron:1", "neuron:7"])
def test_absent_device(device):
    with pytest.raises(RuntimeError, match="invalid neuron device index"):
        torch.zeros(1, device=device)


def test_several_devices(run_python):
    done = run_python(
        """
        import torch
        assert torch.neuron.device_count() == 2
        a = torch.arange(4., device="neuron:0")
        b = a.to("neuron:1")
        assert b.device.index == 1 and b.tolist() == [0, 1, 2, 3]
        try:
            a + b
        except RuntimeError as e:
            assert "Expected all tensors to be on the same device" in str(e), e
        with torch.neuron.device(1):
            assert torch.zeros(1, device="neuron").device.index == 1
        print("fine")
        """,
        NEURON_RT_NUM_CORES=2,
    )
    assert done.out.strip() == "fine", done.err


def test_streams_and_events(mode):
    default = torch.neuron.default_stream()
    assert torch.neuron.current_stream() == default
    side = torch.neuron.Stream()
    x = torch.ones(1000, device="neuron")
    side.wait_stream(default)
    with torch.neuron.stream(side):
        assert torch.neuron.current_stream() == side
        y = x * 3
        done = side.record_event()
    assert torch.neuron.current_stream() == default
    default.wait_event(done)
    assert (y + x).sum().item() == 4000
    side.synchronize()
    assert side.query() and done.query()


def test_elapsed_time_is_emulated(mode):
    start, end = torch.neuron.Event(enable_timing=True), torch.neuron.Event(enable_timing=True)
    x = torch.ones(256, 256, device="neuron")
    start.record()
    for _ in range(3):
        x = x @ x
    end.record()
    end.synchronize()
    first = start.elapsed_time(end)
    assert 0 < first < 1000


def test_memory_follows_tensors():
    torch.neuron.synchronize()
    before = torch.neuron.memory_allocated()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="neuron")
    assert torch.neuron.memory_allocated() - before >= 1 << 20
    assert torch.accelerator.memory_allocated() == torch.neuron.memory_allocated()
    del x
    assert torch.neuron.memory_allocated() == before
    free, total = torch.neuron.mem_get_info()
    assert 0 < free <= total
    assert "capacity" in torch.neuron.memory_summary()


def test_out_of_memory_is_raised_at_the_call_and_survived(run_python):
    done = run_python(
        """
        import torch
        keep = [torch.zeros(1 << 20, dtype=torch.uint8, device="neuron")]
        try:
            for _ in range(40):
                keep.append(torch.ones(1 << 20, dtype=torch.uint8, device="neuron"))
            print("no error")
        except torch.OutOfMemoryError as e:
            print("raised after", len(keep), e)
        assert len(keep) < 33
        del keep[1:]
        assert keep[0].sum().item() == 0
        x = torch.ones(1 << 20, device="neuron")
        print((x + 1).sum().item())
        """,
        NAX_HBM_BYTES=32 << 20,
    )
    assert "raised after" in done.out and "2097152.0" in done.out, done.out + done.err


@pytest.mark.parametrize(
    "name,value,allowed",
    [
        ("TORCH_NEURON_ADAPTIVE", "yes", "0"),
        ("NAX_FUSION_POLICY", "best", "greedy"),
        ("NAX_TIER", "fast", "interpret"),
        ("NAX_TARGET", "trn9", "trn2"),
        ("NAX_FALLBACK", "maybe", "warn"),
        ("NAX_NUM_THREADS", "many", ""),
        ("NAX_HBM_BYTES", "-3", ""),
        ("NEURON_RT_NUM_CORES", "two", "1"),
        ("NEURON_LAUNCH_BLOCKING", "x", "1"),
    ],
)
def test_bad_environment_is_a_clear_error(run_python, name, value, allowed):
    done = run_python(
        """
        import torch
        try:
            torch.ones(3, device="neuron").sort()
            print("no error")
        except RuntimeError as e:
            print(str(e).splitlines()[0])
        print(torch.ones(2).sum().item())
        """,
        **{name: value},
    )
    first, last = done.out.splitlines()[0], done.out.splitlines()[-1]
    assert name in first and value in first and allowed in first, done.out + done.err
    assert last == "2.0"


def test_threads_record_at_once(mode):
    results, errors = {}, []

    def work(k):
        try:
            x = torch.full((64,), float(k), device="neuron")
            for _ in range(50):
                x = x * 1.0 + 1.0
            results[k] = x.cpu()
        except Exception as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors
    for k, x in results.items():
        assert torch.equal(x, torch.full((64,), k + 50.0))


def test_forked_child_gets_a_clear_error(run_python):
    done = run_python(
        """
        import os, torch
        x = torch.ones(2, device="neuron")
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                torch.ones(2, device="neuron")
                os.write(w, b"no error")
            except RuntimeError as e:
                os.write(w, str(e).encode())
            os._exit(0)
        os.waitpid(pid, 0)
        print(os.read(r, 1000).decode())
        print((x + 1).tolist())
        """
    )
    assert "Cannot re-initialize" in done.out and "[2.0, 2.0]" in done.out, done.out + done.err


def test_data_loader_workers_and_pinned_memory(run_python):
    done = run_python(
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        torch.ones(1, device="neuron")
        data = TensorDataset(torch.arange(32.).view(32, 1))
        total = 0
        for (x,) in DataLoader(data, batch_size=8, num_workers=2, pin_memory=True):
            assert x.is_pinned()
            total += x.to("neuron", non_blocking=True).sum().item()
        assert not torch.ones(1).is_pinned()
        print(total)
        """
    )
    assert done.out.strip() == "496.0", done.out + done.err


def test_ctrl_c_during_a_wait(run_python):
    done = run_python(
        """
        import os, signal, threading, time, torch
        torch.set_num_threads(1)
        x = torch.randn(700, 700, device="neuron") * 0.01
        torch.neuron.synchronize()
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            end = time.time() + 60
            with torch.neuron.adaptive():
                while time.time() < end:
                    for _ in range(20):
                        x = x @ x
                    torch.neuron.synchronize()
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted")
        print(torch.ones(2, device="neuron").sum().item())
        """
    )
    assert done.out.split() == ["interrupted", "2.0"], done.out + done.err
