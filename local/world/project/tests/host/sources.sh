# Every module holds a public function.
set -euo pipefail
for module in src/*.rs; do
  grep -q '^pub fn ' "$module" || { echo "$module has no public function"; exit 1; }
done
