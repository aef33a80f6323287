#!/usr/bin/env bash
# Runs the tests that need no device, from the archives alone.
set -euo pipefail
archives=$1
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
  echo "a device is visible: these tests must not see one"
  exit 1
fi
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
tar -xf "$archives/sources.tar" -C "$work"
tar -xf "$archives/host-tests.tar" -C "$work"
cd "$work"
for test in tests/host/*.sh; do
  bash "$test"
  echo "test ${test##*/} ... ok"
done
