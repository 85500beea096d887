#!/usr/bin/env bash
# From a bare Debian 12 or 13 (or Ubuntu) with python3.11 to all that the build needs: system packages and .venv.
# Installs only what is missing, so that a second run does nothing and needs no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

say() { printf '[setup] %s\n' "$*"; }
die() {
  printf '[setup] error: %s\n' "$*" >&2
  exit 1
}

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || die "nax runs on Linux x86-64 only; this is $(uname -s) $(uname -m)"

mkdir -p build
exec 9>build/.setup.lock
flock 9 # two makes at once take turns

# --- python3.11 -----------------------------------------------------------------------------------------------------

is_311() { "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3.11 /usr/bin/python3.11 python3 "$HOME"/.pyenv/versions/3.11*/bin/python3.11 \
    "$HOME"/.local/bin/python3.11 /usr/local/bin/python3.11; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 && is_311 "$candidate"; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
}
[ -z "${PYTHON:-}" ] || is_311 "$PYTHON" || say "PYTHON=$PYTHON is not a working Python 3.11; looking for another"
python=$(find_python)

# --- system packages ------------------------------------------------------------------------------------------------

packages=(g++ cmake ninja-build ccache pkg-config llvm-19-dev libtbb-dev libxxhash-dev doctest-dev libzstd-dev zlib1g-dev)

# For Debian's own Python: the parts that Debian packages apart. Any other Python must bring them along.
need_of_python() { # <what> <package> <python test>
  "$python" -c "$3" >/dev/null 2>&1 && return
  case "$(readlink -f "$python")" in
    /usr/bin/*) packages+=("$2") ;;
    *) die "$python has no $1; install a complete Python 3.11 or name another one with PYTHON=/path/to/python3.11" ;;
  esac
}
if [ -n "$python" ]; then
  need_of_python 'venv module' python3.11-venv 'import ensurepip, venv'
  need_of_python 'C headers (Python.h)' python3.11-dev \
    'import os, sysconfig; os.stat(os.path.join(sysconfig.get_path("include"), "Python.h"))'
else
  packages+=(python3.11 python3.11-venv python3.11-dev)
fi

if command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1; then
  missing=()
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ]; then
      as_root=(env)
    elif command -v sudo >/dev/null 2>&1; then
      as_root=(sudo env)
    else
      die "these packages are missing and there is neither root nor sudo: apt-get install ${missing[*]}"
    fi
    "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get update -qq ||
      say 'apt-get update failed; going on with the package lists that are there'
    if [ -z "$python" ] && ! apt-cache show python3.11 >/dev/null 2>&1; then
      die "no python3.11 found, and this system has no package of it (Debian 13 has 3.13; the binding is for 3.11):" \
        "install Python 3.11, with pyenv for example, or name one: make PYTHON=/path/to/python3.11"
    fi
    say "installing ${missing[*]}"
    log=build/apt.log
    "${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}" \
      >"$log" 2>&1 || {
      tail -n 20 "$log" >&2
      die "apt-get install failed (whole log: $log)"
    }
  fi
else
  for tool in g++ cmake ninja; do
    command -v "$tool" >/dev/null 2>&1 || die "no apt-get here and no $tool: install what Debian calls ${packages[*]}"
  done
fi
[ -n "$python" ] || python=$(find_python)
[ -n "$python" ] || die 'no python3.11 found: install it or name one with PYTHON=/path/to/python3.11'

# --- .venv ----------------------------------------------------------------------------------------------------------

requirements=api/cmake/requirements.txt
stamp=.venv/.nax-setup
wanted=$(cat "$requirements" pyproject.toml | sha256sum | cut -d' ' -f1)-$(pwd | sha256sum | cut -c1-16)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ] || ! is_311 .venv/bin/python; then
  if ! is_311 .venv/bin/python; then
    say "creating .venv with $python"
    "$python" -m venv --clear .venv || die "$python cannot create a virtual environment"
  fi
  say 'installing Python packages into .venv'
  .venv/bin/python -m pip install -q --disable-pip-version-check -r "$requirements" ||
    die "pip could not install $requirements"
  # The package in place; --no-deps and --no-build-isolation: nothing more is fetched.
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . ||
    die 'pip could not install the torch_nax package'
  printf '%s\n' "$wanted" >"$stamp"
fi
say 'ready'
