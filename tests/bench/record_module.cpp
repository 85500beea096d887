// A Python module that times ATen calls from C++: what recording an op costs, without Python's own time in it.
// time_add(a, b, count, rounds) -> ns of one at::add, result dropped at once, median over rounds; `between` is called
// between the rounds, outside the clock (synchronize, so that no window outlives a round).
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace {

PyObject* time_add(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  PyObject *a_object, *b_object, *between;
  int count, rounds;
  if (!PyArg_ParseTuple(args, "OOiiO", &a_object, &b_object, &count, &rounds, &between)) return nullptr;
  const at::Tensor& a = THPVariable_Unpack(a_object);
  const at::Tensor& b = THPVariable_Unpack(b_object);
  c10::InferenceMode no_autograd;
  std::vector<double> ns;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) at::Tensor c = at::add(a, b);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    ns.push_back(spent.count() / count);
    PyObject* done = PyObject_CallNoArgs(between);
    if (!done) return nullptr;
    Py_DECREF(done);
  }
  std::sort(ns.begin(), ns.end());
  return PyFloat_FromDouble(ns[ns.size() / 2]);
  END_HANDLE_TH_ERRORS
}

PyMethodDef kMethods[] = {{"time_add", time_add, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "nax_record_bench", nullptr, -1, kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit_nax_record_bench() { return PyModule_Create(&kModule); }
