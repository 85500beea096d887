// torch_nax._C: what the Python package needs besides ops and c10's registrations.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include <string>

#include "api/torch/device.h"
#include "api/torch/generator.h"
#include "api/torch/gil.h"
#include "api/torch/status.h"

namespace nax::binding {
namespace {

namespace py = pybind11;

py::dict visit(nax_status* (*function)(nax_runtime*, nax_stat_visitor, void*)) {
  std::vector<std::pair<std::string, double>> rows;
  nax_runtime* const used = runtime(current_device());
  {
    py::gil_scoped_release release;  // the core may wait
    check(function(used,
                   [](void* user, const char* key, double value) {
                     static_cast<decltype(rows)*>(user)->emplace_back(key, value);
                   },
                   &rows));
  }
  py::dict result;
  for (const auto& [key, value] : rows) {
    const auto whole = static_cast<int64_t>(value);
    if (static_cast<double>(whole) == value && key.find("seconds") == std::string::npos) {
      result[key.c_str()] = whole;
    } else {
      result[key.c_str()] = value;
    }
  }
  return result;
}

py::dict memory_info(int device) {
  nax_memory_info info = {};
  info.struct_size = sizeof(info);
  check(nax_runtime_memory_info(runtime(device_or_current(device)), &info));
  py::dict result;
  result["capacity_bytes"] = info.capacity_bytes;
  result["charged_bytes"] = info.charged_bytes;
  result["charged_peak_bytes"] = info.charged_peak_bytes;
  result["physical_bytes"] = info.physical_bytes;
  result["physical_peak_bytes"] = info.physical_peak_bytes;
  result["cached_bytes"] = info.cached_bytes;
  return result;
}

void set_mode(const std::string& name) {
  nax_mode mode = NAX_MODE_DEFAULT;
  if (name == "eager") mode = NAX_MODE_EAGER;
  if (name == "adaptive") mode = NAX_MODE_ADAPTIVE;
  TORCH_CHECK_VALUE(mode != NAX_MODE_DEFAULT, "unknown mode '", name, "'; allowed: eager, adaptive");
  check_argument(nax_runtime_set_mode(runtime(current_device()), mode));
}

std::string mode() {
  return nax_runtime_mode(runtime(current_device())) == NAX_MODE_ADAPTIVE ? "adaptive" : "eager";
}

PYBIND11_MODULE(_C, m) {
  py::register_local_exception_translator([](std::exception_ptr error) {
    if (!error) return;
    try {
      std::rethrow_exception(error);
    } catch (const py::builtin_exception&) {
      throw;
    } catch (const py::error_already_set&) {
      throw;
    } catch (...) {
      torch::translate_exception_to_python(std::current_exception());
    }
  });

  m.def("_register_fork_handler",
        [] { torch::utils::register_fork_handler_for_device_init(kNeuron); });
  m.def("_is_in_bad_fork",
        [] { return in_bad_fork() || torch::utils::is_device_in_bad_fork(kNeuron); });
  m.def("_init", [] { runtime(current_device()); });
  m.def("_has_runtime", [](int device) { return has_runtime(static_cast<c10::DeviceIndex>(device)); });
  m.def("_device_count", [] { return int(device_count()); });
  m.def("_current_device", [] { return int(current_device()); });
  m.def("_set_device", [](int device) { set_current_device(static_cast<c10::DeviceIndex>(device)); });
  m.def("_synchronize", [](int device) {
    synchronize_device(device_or_current(static_cast<c10::DeviceIndex>(device)));
  });
  // torch.Event.elapsed_time takes no subclass of torch.Event.
  m.def("_elapsed_ms", [](int64_t start, int64_t end) {
    py::gil_scoped_release release;
    return c10::impl::getDeviceGuardImpl(kNeuron)->elapsedTime(reinterpret_cast<void*>(start),
                                                               reinterpret_cast<void*>(end), -1);
  });
  m.def("_memory_info", &memory_info);
  m.def("_default_generator", [](int device) {
    return py::reinterpret_steal<py::object>(
        THPGenerator_initDefaultGenerator(default_generator(static_cast<c10::DeviceIndex>(device))));
  });

  m.def("_version", [] { return std::string(nax_version()); });
  m.def("_mode", &mode);
  m.def("_set_mode", &set_mode);
  m.def("_fusion_policy",
        [] { return std::string(nax_runtime_fusion_policy(runtime(current_device()))); });
  m.def("_set_fusion_policy", [](const std::string& name) {
    check_argument(nax_runtime_set_fusion_policy(runtime(current_device()), name.c_str()));
  });
  m.def("_set_num_threads", [](int threads) {
    for (c10::DeviceIndex d = 0; d < device_count(); ++d) {
      if (has_runtime(d)) check_argument(nax_runtime_set_num_threads(runtime(d), threads));
    }
  });
  m.def("_stats", [] { return visit(&nax_runtime_visit_stats); });
  m.def("_fallback_ops", [] { return visit(&nax_runtime_visit_fallbacks); });
  m.def("_reset_stats", [] { nax_runtime_reset_stats(runtime(current_device())); });
}

}  // namespace
}  // namespace nax::binding
