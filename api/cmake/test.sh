#!/usr/bin/env bash
# Runs every suite of the release build: ctest (doctest suites, examples, lint), then pytest. Fails if either does, but
# runs both.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mkdir -p build
ctest --preset release -j "$(nproc)" 2>&1 | tee build/ctest.log
ctest_code=${PIPESTATUS[0]}

pytest_code=0
pytest_line='no tests/python'
if compgen -G 'tests/python/**/test_*.py' >/dev/null || compgen -G 'tests/python/test_*.py' >/dev/null; then
  .venv/bin/python -m pytest -q tests/python 2>&1 | tee build/pytest.log
  pytest_code=${PIPESTATUS[0]}
  pytest_line=$(tail -n 1 build/pytest.log)
fi

printf '\n[test] ctest:  %s\n' "$(grep -E 'tests passed|tests failed|No tests were found' build/ctest.log | tail -n 1)"
printf '[test] pytest: %s\n' "$pytest_line"
if [ "$ctest_code" != 0 ] || [ "$pytest_code" != 0 ]; then
  printf '[test] FAILED (ctest exit %s, pytest exit %s)\n' "$ctest_code" "$pytest_code"
  exit 1
fi
printf '[test] all passed\n'
