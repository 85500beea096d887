#include "api/torch/single_thread.h"

#include <ATen/Parallel.h>

// Of the libraries that torch itself is linked with.
extern "C" {
void omp_set_num_threads(int threads);
int MKL_Set_Num_Threads_Local(int threads) __attribute__((weak));
}

namespace nax::binding {

SingleThread::SingleThread() : mkl_(0) {
  openmp_ = at::get_num_threads();  // also does torch's per-thread set-up, which would undo a limit set before it
  if (openmp_ != 1) omp_set_num_threads(1);
  if (MKL_Set_Num_Threads_Local != nullptr) mkl_ = MKL_Set_Num_Threads_Local(1);
}

SingleThread::~SingleThread() {
  if (openmp_ != 1) omp_set_num_threads(openmp_);
  if (MKL_Set_Num_Threads_Local != nullptr) MKL_Set_Num_Threads_Local(mkl_);
}

}  // namespace nax::binding
