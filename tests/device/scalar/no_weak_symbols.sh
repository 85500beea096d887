#!/bin/sh
# no_weak_symbols.sh NM ARCHIVE: fails if a kernel object (name_avx2, name_avx512) defines a weak or unique symbol.
symbols=$("$1" -A --defined-only "$2") || exit 1
kernels=$(printf '%s\n' "$symbols" | grep -c '_avx512')
[ "$kernels" -gt 0 ] || { echo "no kernel objects in $2"; exit 1; }
weak=$(printf '%s\n' "$symbols" | grep -E '_avx(2|512)\.cpp' | grep -E ' [WVu] ')
[ -z "$weak" ] || { echo "weak symbols in kernel files:"; echo "$weak"; exit 1; }
