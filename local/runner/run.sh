#!/usr/bin/env bash
# Stand-in for the official runner's run.sh: `./run.sh --jitconfig <blob>` takes exactly one job and ends.
#
# The rented image has no Node of its own. Here one is found, in this order: GPU_GATE_LOCAL_NODE (an absolute path), the
# one this project installed, the one on PATH.
set -euo pipefail
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
node=${GPU_GATE_LOCAL_NODE:-}
if [ -z "$node" ] && [ -x "$here/../../node_modules/.bin/node" ]; then node=$here/../../node_modules/.bin/node; fi
if [ -z "$node" ]; then node=$(command -v node || true); fi
if [ -z "$node" ]; then
  echo "run.sh: no Node found; set GPU_GATE_LOCAL_NODE to the path of one." >&2
  exit 1
fi
exec "$node" "$here/runner.ts" "$@"
