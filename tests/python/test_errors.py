"""Wrong arguments raise at the call, as on the CPU. What only data can tell is deferred to the next synchronisation."""

import pytest
import torch


@pytest.mark.parametrize(
    "run",
    [
        lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
        lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
        lambda d: torch.ones(2, device=d).add_(torch.ones(3, 2, device=d)),
        lambda d: torch.ones(2, dtype=torch.long, device=d).add_(0.5),
        lambda d: torch.ones(2, device=d).view(3),
        lambda d: torch.ones(2, device=d).sum(3),
        lambda d: torch.softmax(torch.ones(2, device=d), 4),
        lambda d: torch.cat([torch.ones(2, 2, device=d), torch.ones(2, 3, device=d)]),
        lambda d: torch.ones(0, device=d).amax(),
        lambda d: torch.ones(2, dtype=torch.bool, device=d) - torch.ones(2, dtype=torch.bool, device=d),
        lambda d: torch.ones(2, device=d) - True,
        lambda d: torch.ones(2, device=d).sub_(True),
        lambda d: torch.add(torch.ones(2, device=d), 1, alpha=True),
        lambda d: torch.add(torch.ones(2, device=d), 1, out=torch.ones(2, dtype=torch.long, device=d)),
        lambda d: torch.ones(2, device=d).index_select(0, torch.ones(2, device=d)),
        lambda d: torch.empty(-1, device=d),
        lambda d: torch.ones(3, device=d).item(),
        lambda d: torch.layer_norm(torch.ones(2, 3, device=d), (4,)),
        lambda d: torch.ones(2, 2, device=d).gather(2, torch.zeros(2, 2, dtype=torch.long, device=d)),
    ],
)
def test_argument_errors_are_the_cpus(run, mode):
    with pytest.raises(Exception) as cpu:
        run("cpu")
    with pytest.raises(type(cpu.value)) as neuron:
        run("neuron")
    first = str(cpu.value).splitlines()[0].replace("cpu", "neuron")
    assert str(neuron.value).splitlines()[0].replace("cpu", "neuron") == first


def test_index_error_is_deferred_and_names_the_line(mode):
    x = torch.arange(4.0, device="neuron")
    bad = x.index_select(0, torch.tensor([9], device="neuron"))  # the line to be named
    fine = x + 1
    with pytest.raises(IndexError) as error:
        torch.neuron.synchronize()
    text = str(error.value)
    assert "index_select" in text and "test_errors.py" in text and "test_index_error_is_deferred" in text
    torch.neuron.synchronize()  # once
    assert fine.tolist() == [1, 2, 3, 4]
    with pytest.raises(IndexError):
        bad.cpu()
    with pytest.raises(IndexError):
        (bad * 2).cpu()
    bad.fill_(3)
    assert bad.item() == 3


def test_integer_division_by_zero_is_deferred(mode):
    x = torch.tensor([6, 7], device="neuron") // torch.tensor([2, 0], device="neuron")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torch.neuron.synchronize()
    del x
    assert (torch.tensor([7], device="neuron") // 2).item() == 3


def test_blocking_mode_says_where_it_divided_by_zero(run_python):
    done = run_python(
        """
        import torch
        try:
            torch.tensor([6, 7], device="neuron") // torch.tensor([2, 0], device="neuron")
        except RuntimeError as e:
            print(e)
        """,
        NEURON_LAUNCH_BLOCKING="1",
    )
    assert "ZeroDivisionError: integer division or modulo by zero in div_floor(i64[2], i64[2])" in done.out


def test_blocking_mode_raises_in_place(run_python):
    done = run_python(
        """
        import torch
        x = torch.arange(4.0, device="neuron")
        i = torch.tensor([9], device="neuron")
        try:
            x.index_select(0, i)
            print("no error")
        except IndexError as e:
            print("raised")
        torch.neuron.synchronize()
        """,
        NEURON_LAUNCH_BLOCKING=1,
    )
    assert done.out.strip() == "raised", done.out + done.err


def test_backward_errors_name_the_forward_line(run_python, tmp_path):
    script = tmp_path / "user_script.py"
    script.write_text(
        "import torch\n"
        "w = torch.ones(4, 2, device='neuron', requires_grad=True)\n"
        "y = torch.nn.functional.embedding(torch.tensor([1, 7], device='neuron'), w)\n"
        "torch.neuron.synchronize()\n"
    )
    done = run_python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
    assert "user_script.py:3" in done.err, done.err


def test_unknown_names_are_value_errors():
    with pytest.raises(ValueError, match="eager"):
        torch.neuron.set_mode("fast")
    with pytest.raises(ValueError, match="greedy"):
        torch.neuron.set_fusion_policy("best")
    for wrong in (None, 3, b"eager"):
        with pytest.raises(ValueError, match="allowed: eager, adaptive"):
            torch.neuron.set_mode(wrong)
        with pytest.raises(ValueError, match="greedy"):
            torch.neuron.set_fusion_policy(wrong)


@pytest.mark.parametrize("dtype, bounds", [(torch.uint8, (-5, 300)), (torch.int32, (2**40, None)), (torch.float16, (2.0**40, None)), (torch.float32, (None, 1e300))])
def test_clamp_bounds_that_overflow_raise_as_on_cpu(dtype, bounds):
    x = torch.ones(3, dtype=dtype)
    with pytest.raises(RuntimeError, match="without overflow"):
        x.clamp(*bounds)
    with pytest.raises(RuntimeError, match="without overflow"):
        x.to("neuron").clamp(*bounds)


def test_gelu_names_what_is_allowed():
    with pytest.raises(RuntimeError, match="approximate argument must be either none or tanh"):
        torch.nn.functional.gelu(torch.ones(3, device="neuron"), approximate="other")
