// CPU kernels run with one thread in a scope: some change their bits with the thread count, and OpenMP workers spin.
#pragma once

namespace nax::binding {

// Limits OpenMP and MKL on this thread alone; torch.get_num_threads() of other threads is untouched.
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;  // one scope
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int openmp_;
  int mkl_;
};

}  // namespace nax::binding
