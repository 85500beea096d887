#include "device/scalar/strip_wide_kernels.h"
