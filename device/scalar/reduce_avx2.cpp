#include "device/scalar/reduce_kernels.h"
