# A GPU test program in the manner of Rust's own: a line for each test, and the closing line that is counted.
# `seconds` and `failing` were set when it was built. It finds its fixtures beside itself, in the reconstructed archives.
set -euo pipefail
folder=$(cd "$(dirname "$0")/.." && pwd)
nvidia-smi > /dev/null || { echo "no device: these tests need one"; exit 101; }
mapfile -t names < <(tar -xOf "$folder/fixtures.tar" tests/fixtures/cases.txt)

sleep "$seconds"
passed=0 failed=0
for name in "${names[@]}"; do
  if [ "$name" = "$failing" ]; then
    echo "test $name ... FAILED (expected 1.0, got 0.98)"
    failed=$((failed + 1))
  else
    echo "test $name ... ok"
    passed=$((passed + 1))
  fi
done
word=ok
if [ "$failed" -gt 0 ]; then word=FAILED; fi
echo "test result: $word. $passed passed; $failed failed; 0 ignored; 0 measured; 0 filtered out"
[ "$failed" -eq 0 ] || exit 101
