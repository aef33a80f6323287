#!/usr/bin/env bash
# gpu-gate pod start script: what a rented machine does before it becomes a runner.
#
# It travels in the create request as `bash -c <this text> gpu-gate-start` and runs as PID 1 of the official runner image
# (user 1001 with password-less sudo, or root). It never starts the runner unless the machine is the one that was paid
# for: driver, GPU and a compiled kernel are checked, the gate has taken the proof, and a hook that refuses strangers'
# jobs is in place. Every refusal is printed, told to the gate (`exit`), and ends with a non-zero code.
set -u -o pipefail

say() { printf '[gpu-gate] %s\n' "$*"; }

# call WORD NONCE BODY SECONDS: one POST to the gate; true only for a 2xx. The nonce goes through standard input, never
# through an argument list that another process could read. The body gets how long this container has been up: the gate
# tells by it how long the image took to arrive, whatever this machine's clock says.
call() {
  local status
  status=$(printf 'Authorization: Bearer %s\n' "$2" | curl -q --silent --output /dev/null --write-out '%{http_code}' \
    --max-time "$4" --request POST --header @- --header 'Content-Type: application/json' \
    --user-agent gpu-gate-pod --data-binary "{\"sinceStart\":$SECONDS,${3#\{}" \
    "${GPU_GATE_URL:-}/pod/v1/${GPU_GATE_REPOSITORY_ID:-}/${GPU_GATE_ATTEMPT:-}/$1") || true
  case $status in 2??) return 0 ;; *) say "the gate answered $1 with ${status:-nothing}"; return 1 ;; esac
}

# last_words REASON CODE: best effort and bounded.
last_words() {
  trap '' TERM INT
  if [ -n "${exit_nonce:-}" ]; then
    call exit "$exit_nonce" "{\"reason\":\"$1\",\"code\":$2${gpu_uuid:+,\"gpuUuid\":\"$gpu_uuid\"}}" 5 || true
  fi
  unset exit_nonce
}

# finish REASON CODE: the pod's last words, then the end.
finish() {
  last_words "$1" "$2"
  exit "$2"
}

fail() {
  say "REFUSED ($1): $2. The runner is not started."
  finish "$1" 1
}

# --- 1. A clean environment, before anything else ------------------------------------------------------------------
# Whoever gets onto this machine later must find no secret in any environment, /proc/1/environ included. exec replaces
# the process image; the three secrets travel in an unlinked 0600 file, everything else is let through by name. The
# vendor's pod-scoped RUNPOD_API_KEY is not on the list.
if [ "${1:-}" != clean ]; then
  exit_nonce=${GPU_GATE_EXIT_NONCE:-}
  for name in GPU_GATE_PROOF_NONCE GPU_GATE_EXIT_NONCE GPU_GATE_JIT_CONFIG; do
    case ${!name:-} in '' | *[!A-Za-z0-9+/=_.~-]*) fail bad-facts "$name is missing or has characters it cannot have" ;; esac
  done
  umask 077
  store=$(mktemp /dev/shm/gpu-gate.XXXXXXXX 2>/dev/null || mktemp) || fail bad-facts "there is no place for a temporary file"
  { exec 8>"$store" 9<"$store"; } || fail bad-facts "the temporary file cannot be opened"
  rm -f -- "$store"
  printf '%s\n' "$GPU_GATE_PROOF_NONCE" "$GPU_GATE_EXIT_NONCE" "$GPU_GATE_JIT_CONFIG" >&8
  exec 8>&-
  keep=()
  for name in PATH HOME LANG LC_ALL TZ LD_LIBRARY_PATH ImageOS RUNNER_MANUALLY_TRAP_SIG \
    ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT RUNPOD_POD_ID GPU_GATE_HOOK_DIR GPU_GATE_URL GPU_GATE_REPOSITORY_ID \
    GPU_GATE_ATTEMPT GPU_GATE_EXPECTED_GPU_NAMES GPU_GATE_MIN_VRAM_MB GPU_GATE_MIN_DRIVER_CUDA GPU_GATE_RUN_ID \
    GPU_GATE_RUN_ATTEMPT GPU_GATE_WORKFLOW_REF GPU_GATE_STARTUP_SECONDS GPU_GATE_SMOKE GPU_GATE_NVRTC_12_6_URL \
    GPU_GATE_NVRTC_12_6_SHA256 GPU_GATE_NVRTC_12_8_URL GPU_GATE_NVRTC_12_8_SHA256 GPU_GATE_TIER GPU_GATE_GPU_ID \
    GPU_GATE_PRICE GPU_GATE_KEEP; do
    if [ -n "${!name+set}" ]; then keep+=("$name=${!name}"); fi
  done
  exec env -i "${keep[@]}" bash -c "$BASH_EXECUTION_STRING" gpu-gate-start clean
fi

umask 022
runner= signalled=
on_signal() {
  signalled=yes
  if [ -n "$runner" ]; then kill -TERM "$runner" 2>/dev/null; else finish terminated 143; fi
}
trap on_signal TERM INT
{ IFS= read -r proof_nonce && IFS= read -r exit_nonce && IFS= read -r jit; } <&9 || fail bad-facts "the secrets did not arrive"
exec 9<&-

# fact NAME PATTERN: the value must be there and fit, or the pod was bought with a broken request.
fact() {
  local value=${!1:-}
  [[ $value =~ ^($2)$ ]] || fail bad-facts "$1 is missing or malformed"
}
fact GPU_GATE_URL 'https?://[^[:space:]"]+'
fact GPU_GATE_REPOSITORY_ID '[0-9]+'
fact GPU_GATE_ATTEMPT '[A-Za-z0-9._~:-]+'
fact GPU_GATE_RUN_ID '[0-9]+'
fact GPU_GATE_RUN_ATTEMPT '[0-9]+'
fact GPU_GATE_WORKFLOW_REF '.*[^[:space:]].*'
fact GPU_GATE_EXPECTED_GPU_NAMES '.*[^[:space:]].*'
fact GPU_GATE_MIN_VRAM_MB '[0-9]{1,7}'
fact GPU_GATE_MIN_DRIVER_CUDA '[0-9]{1,4}\.[0-9]{1,4}'
fact GPU_GATE_STARTUP_SECONDS '[0-9]{1,5}'
fact GPU_GATE_SMOKE 'required|off'
fact RUNPOD_POD_ID '[A-Za-z0-9_-]+'
if [ ! -f ./run.sh ] && [ -f /home/runner/run.sh ]; then cd /home/runner || true; fi
[ -x ./run.sh ] || fail runner-missing "there is no ./run.sh in $PWD"

# left [MOST]: whole seconds of the startup budget, at least 1 so that a limit is never "none".
left() {
  local seconds=$((10#$GPU_GATE_STARTUP_SECONDS - SECONDS)) most=${1:-99999}
  if ((seconds > most)); then seconds=$most; fi
  if ((seconds < 1)); then seconds=1; fi
  printf '%d' "$seconds"
}

# --- 2. The GPU that was paid for ----------------------------------------------------------------------------------
# at_least A B: versions compare as pairs of numbers (12.10 is above 12.8).
at_least() {
  local a=${1%%.*} b=${1#*.} c=${2%%.*} d=${2#*.}
  ((10#$a > 10#$c || (10#$a == 10#$c && 10#$b >= 10#$d)))
}

command -v nvidia-smi >/dev/null || fail nvidia-smi-failed "there is no nvidia-smi"
smi=$(timeout "$(left 30)" nvidia-smi 2>&1) && status=0 || status=$?
[[ $smi != *'No devices were found'* ]] || fail gpu-count "nvidia-smi found no GPU"
# nvidia-smi may end with 0 although the card shows an error.
[[ $smi != *'ERR!'* ]] || fail gpu-error "nvidia-smi shows ERR!"
[ "$status" -eq 0 ] || fail nvidia-smi-failed "nvidia-smi ended with status $status"
[[ $smi =~ CUDA\ Version:[[:space:]]*([0-9]{1,4})\.([0-9]{1,4}) ]] || fail driver-unreadable "nvidia-smi names no CUDA version"
driver_cuda=$((10#${BASH_REMATCH[1]})).$((10#${BASH_REMATCH[2]}))
for minimum in 12.6 "$GPU_GATE_MIN_DRIVER_CUDA"; do
  at_least "$driver_cuda" "$minimum" || fail driver-too-old "the driver's CUDA API $driver_cuda is below $minimum"
done
if at_least "$driver_cuda" 12.8; then nvrtc=12.8; else nvrtc=12.6; fi
say "driver CUDA API $driver_cuda, chosen NVRTC $nvrtc"

list=$(timeout "$(left 30)" nvidia-smi --format=csv,noheader,nounits \
  --query-gpu=name,uuid,memory.total,driver_version,ecc.errors.uncorrected.volatile.total 2>&1) ||
  fail nvidia-smi-failed "nvidia-smi does not list its GPUs"
[[ $list != *'ERR!'* ]] || fail gpu-error "nvidia-smi shows ERR! in its list"
mapfile -t rows < <(grep '[^[:space:]]' <<<"$list")
[ "${#rows[@]}" -eq 1 ] || fail gpu-count "nvidia-smi lists ${#rows[@]} GPUs instead of 1"
[[ ${rows[0]} =~ ^[[:space:]]*([^,]*[^,[:space:]]),\ *(GPU-[A-Za-z0-9-]+),\ *([0-9]{1,7}),\ *([0-9][0-9.]*),\ *([^,]*)$ ]] ||
  fail driver-unreadable "nvidia-smi's list is not what it should be"
gpu_name=${BASH_REMATCH[1]} gpu_uuid=${BASH_REMATCH[2]} vram_mb=$((10#${BASH_REMATCH[3]})) driver=${BASH_REMATCH[4]} ecc=${BASH_REMATCH[5]}
[[ ! $ecc =~ ^[0-9]+$ || $ecc =~ ^0+$ ]] || fail gpu-error "the GPU counts $ecc uncorrected memory errors"
grep -qxF -- "$gpu_name" <<<"$GPU_GATE_EXPECTED_GPU_NAMES" || fail gpu-name "the GPU is a $gpu_name, which was not asked for"
((vram_mb >= 10#$GPU_GATE_MIN_VRAM_MB)) || fail gpu-vram "the GPU has $vram_mb MB, below $GPU_GATE_MIN_VRAM_MB MB"
say "$gpu_name, $vram_mb MB, driver $driver"

# --- 3. A kernel compiled here runs here ---------------------------------------------------------------------------
smoke_program() {
  cat <<'GPU_GATE_SMOKE_PROGRAM'
@@pod/smoke.py@@
GPU_GATE_SMOKE_PROGRAM
}

loaded=
if [ "$GPU_GATE_SMOKE" = off ]; then
  say "WARNING: THE SMOKE TEST IS SWITCHED OFF. Nothing shows that this driver runs compiled kernels."
else
  url=GPU_GATE_NVRTC_${nvrtc/./_}_URL sha256=GPU_GATE_NVRTC_${nvrtc/./_}_SHA256
  url=${!url:-} sha256=${!sha256:-}
  [[ -n $url && $sha256 =~ ^[0-9a-f]{64}$ ]] || fail nvrtc-not-configured "no address with a SHA-256 is configured for NVRTC $nvrtc"
  payload=$(mktemp) || fail nvrtc-download "there is no place for NVRTC"
  curl -q --fail --silent --show-error --location --max-time "$(left)" --output "$payload" "$url" 2>&1 ||
    fail nvrtc-download "NVRTC $nvrtc could not be fetched"
  [ "$(sha256sum <"$payload" | cut -d' ' -f1)" = "$sha256" ] || fail nvrtc-checksum "the fetched NVRTC $nvrtc is not the pinned one"
  proof=$(smoke_program | timeout "$(left 120)" python3 -I - "$payload" "$nvrtc" "$driver_cuda" 2>&1) && status=0 || status=$?
  rm -f -- "$payload"
  printf '%s\n' "$proof"
  [ "$status" -eq 0 ] || fail smoke-failed "the smoke test ended with status $status"
  [[ $proof =~ nvrtc-loaded\ ([0-9]+\.[0-9]+) ]] || fail smoke-failed "the smoke test named no NVRTC"
  loaded=${BASH_REMATCH[1]}
fi

# --- 4. Only our job -----------------------------------------------------------------------------------------------
# GitHub gives a runner to any job with matching labels. The hook runs before a job's first step and ends a stranger's.
hook_text() {
  printf '#!/usr/bin/env bash\nsame() { [ "$2" = "$3" ] || { echo "gpu-gate: this machine was bought for another job ($1: $2)"; exit 1; }; }\n'
  printf 'same %s "${%s:-}" %q\n' repository GITHUB_REPOSITORY_ID "$GPU_GATE_REPOSITORY_ID" run GITHUB_RUN_ID "$GPU_GATE_RUN_ID" \
    attempt GITHUB_RUN_ATTEMPT "$GPU_GATE_RUN_ATTEMPT"
  # Without the repository's name, which may have changed since this machine was bought: its id is compared above.
  printf 'same workflow "${GITHUB_WORKFLOW_REF#*/*/}" %q\n' "${GPU_GATE_WORKFLOW_REF#*/*/}"
}
as_root() { if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi; }
hook=${GPU_GATE_HOOK_DIR:-/opt/gpu-gate}/job-started.sh
{ as_root mkdir -p -- "${hook%/*}" && hook_text | as_root tee -- "$hook" >/dev/null && as_root chmod 755 -- "$hook"; } ||
  fail hook-not-installed "the job-started hook cannot be written to $hook"
[ "$(stat -c %u -- "$hook")" = 0 ] || say "WARNING: the job-started hook does not belong to root."

# --- 5. The proof, until the gate takes it -------------------------------------------------------------------------
# The values below are matched above or come from us, except the GPU's name, which is one of the expected names.
body=$(printf '{"podId":"%s","gpuName":"%s","gpuUuid":"%s","gpuCount":1,"vramMb":%d,"driver":"%s","cuda":"%s","nvrtc":"%s","nvrtcLoaded":%s,"smoke":"%s","scriptSha256":"%s"}' \
  "$RUNPOD_POD_ID" "${gpu_name//[\"\\]/}" "$gpu_uuid" "$vram_mb" "$driver" "$driver_cuda" "$nvrtc" \
  "$([ -n "$loaded" ] && printf '"%s"' "$loaded" || printf null)" \
  "$([ "$GPU_GATE_SMOKE" = off ] && echo off || echo passed)" \
  "$(printf %s "$BASH_EXECUTION_STRING" | sha256sum | cut -d' ' -f1)")
pause=1 # 1, 3, 8, 8 ...: the gate takes ten calls a minute for an attempt
until call proof "$proof_nonce" "$body" "$(left 10)"; do
  if ((SECONDS + pause >= 10#$GPU_GATE_STARTUP_SECONDS)); then fail proof-not-accepted "the gate did not take the proof in time"; fi
  sleep "$pause"
  pause=$((pause < 3 ? 3 : 8))
done
unset proof_nonce
say "the gate has taken the proof"

# --- 6. The runner, as the owner of its files, with nothing in its environment but this -----------------------------
owner=$(stat -c %u ./run.sh) become=() user_home=${HOME:-$PWD}
if ((EUID == 0)) && [ "$owner" != 0 ]; then
  user_home=$(getent passwd "$owner" | cut -d: -f6)
  become=(setpriv "--reuid=$owner" "--regid=$(stat -c %g ./run.sh)" "$([ -n "$user_home" ] && echo --init-groups || echo --clear-groups)")
fi
# A runner that GitHub finds too old says so by exit code 7 instead of 1.
runner_env=("HOME=${user_home:-$PWD}" "ACTIONS_RUNNER_HOOK_JOB_STARTED=$hook" ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1)
if [ "$owner" = 0 ]; then runner_env+=(RUNNER_ALLOW_RUNASROOT=1); fi
# The last three are what was rented, for the job to print next to nvidia-smi: the run was dispatched before it was known.
for name in PATH LANG LC_ALL TZ LD_LIBRARY_PATH ImageOS RUNNER_MANUALLY_TRAP_SIG ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT \
  GPU_GATE_TIER GPU_GATE_GPU_ID GPU_GATE_PRICE; do
  if [ -n "${!name+set}" ]; then runner_env+=("$name=${!name}"); fi
done
"${become[@]}" env -i "${runner_env[@]}" ./run.sh --jitconfig "$jit" </dev/null &
runner=$!
unset jit
wait "$runner"
code=$?
# A signal interrupts wait; the runner's own end is what counts, also when it came at once. 127, and -1 of bash 5.2: it has
# forgotten that end, and the signal's is all there is to tell.
while [ -n "$signalled" ]; do
  signalled=
  wait "$runner"
  told=$?
  if ((told >= 0 && told != 127)); then code=$told; fi
done

# --- 7. Last words -------------------------------------------------------------------------------------------------
say "the runner ended with status $code"
if [ "${GPU_GATE_KEEP:-false}" = true ]; then
  # Bought with the word to keep it: the container stays up for whoever looks at it. This keeps nothing by itself; the
  # gate deletes the pod at the end it has recorded, or at once.
  last_words runner-exited "$code"
  trap 'exit 0' TERM INT
  say "this machine stays for debugging until the gate deletes it"
  while :; do sleep 600 & wait "$!"; done
fi
finish runner-exited "$code"
