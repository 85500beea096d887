// Where in the user's Python program an op was recorded, for error messages.
//
// Note [Origins]
// An origin is a small number that stands for a code object and an instruction offset, interned once. Reading it takes a
// walk over the thread's interpreter frames (CPython 3.11's _PyInterpreterFrame), outward past frames of torch and of this
// package to the first of the user. Kernels often run without the GIL: the frames belong to this very thread, which is
// inside the call, so they do not move. A code object seen for the first time is kept alive for ever (that needs the GIL,
// once per code object), so an address never comes to mean another; the table is bounded, and past it the origin is 0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nax::binding {

// 0: unknown. In a backward pass: the origin of the forward op, found by the autograd node's sequence number.
uint64_t current_origin();

// nax_origin_resolver: "train.py:17 in step". Any thread.
void resolve_origin(void* user, uint64_t origin, char* out_text, size_t size);

}  // namespace nax::binding
