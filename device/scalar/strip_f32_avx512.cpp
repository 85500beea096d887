#include "device/scalar/strip_f32_kernels.h"
