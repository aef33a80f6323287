#!/usr/bin/env bash
# Leaves in the folder it is given what the tests need: three archives and one GPU test program.
#
# A real project compiles here. This one's program is a shell script, so that its opening day needs no compiler; what it
# does is told by the revision's own files, as a compiled program's behaviour is told by its source.
set -euo pipefail
out=$1

tar -cf "$out/sources.tar" src
tar -cf "$out/host-tests.tar" tests/host
tar -cf "$out/fixtures.tar" tests/fixtures

seconds=1.3 failing=
if [ -e tests/slow ]; then seconds=30; fi
if [ -e tests/broken ]; then failing=conv2d_matches_reference; fi
mkdir "$out/gpu-tests"
{
  printf '#!/usr/bin/env bash\nseconds=%s failing=%s\n' "$seconds" "$failing"
  cat tests/gpu-tests.sh
} > "$out/gpu-tests/tensors"
chmod 755 "$out/gpu-tests/tensors"
