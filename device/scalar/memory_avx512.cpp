#include "device/scalar/memory_kernels.h"
