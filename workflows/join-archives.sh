# Puts the parts of an archive together on a machine that has no Node: bash, tar and coreutils only.
#
# To be placed as it is in a step of the trusted workflow, never run from the tested revision. The step's env says
#   PARTS_DIR  the folder with <name>.part00 ... and <name>.manifest, as `gpu-gate archive split` wrote them
#   FILES_DIR  the folder to make; it appears only when every part and every file has been checked
#   NAME       the archive's name (default: archives)
set -euo pipefail
name=${NAME:-archives}
manifest=$PARTS_DIR/$name.manifest
stage=$FILES_DIR.joining
fail() { echo "::error title=Archive refused::$1"; exit 1; }

[ -s "$manifest" ] || fail "$name.manifest is missing or empty."
[ ! -e "$FILES_DIR" ] || fail "$FILES_DIR is there already."
rm -rf "$stage"
mkdir -p "$stage/files" "$stage/sums"

# The manifest's last line vouches for all the others.
sum=$(head -n -1 "$manifest" | sha256sum)
[ "$(tail -n 1 "$manifest")" = "#sum"$'\t'"${sum%% *}" ] || fail "$name.manifest is damaged or cut off."
[ "$(head -n 1 "$manifest")" = "#gpu-gate-archive 1" ] || fail "$name.manifest is of another version."

declare -A owner=()
parts=()
while read -r hash file; do
  case "$file" in "$name".part[0-9][0-9]) parts+=("$file"); owner[$hash]=$file; owner[$file]=$hash ;; esac
done < "$manifest"
[ "${#parts[@]}" -gt 0 ] || fail "$name.manifest lists no parts."

# All parts are hashed at the same time: the paid machine has the cores, and the clock runs.
for file in "${parts[@]}"; do
  [ -s "$PARTS_DIR/$file" ] || continue
  sha256sum < "$PARTS_DIR/$file" > "$stage/sums/$file" &
done
wait
problems=
for file in "${parts[@]}"; do
  if [ ! -e "$PARTS_DIR/$file" ]; then problems+=" $file is missing."; continue; fi
  if [ ! -s "$PARTS_DIR/$file" ]; then problems+=" $file is empty."; continue; fi
  read -r hash _ < "$stage/sums/$file" || hash=unreadable
  [ "$hash" = "${owner[$file]}" ] && continue
  if [ -n "${owner[$hash]:-}" ]; then problems+=" $file is swapped: it holds the content of ${owner[$hash]}."
  else problems+=" $file is damaged."; fi
done
for path in "$PARTS_DIR/$name".part*; do
  [ ! -e "$path" ] || [ -n "${owner[${path##*/}]:-}" ] || problems+=" ${path##*/} is extra."
done
[ -z "$problems" ] || fail "${problems# }"

(cd "$PARTS_DIR" && cat "${parts[@]}") | tar -x -C "$stage/files" --no-same-owner
# File lines are "<hash>  <name>/<path>": a link of that name lets sha256sum read them as they are.
ln -s files "$stage/$name"
while IFS= read -r line; do
  case "$line" in '#'*) ;; *"  $name/"*) printf '%s\n' "$line" ;; esac
done < "$manifest" > "$stage/files.sha256"
(cd "$stage" && sha256sum --check --strict --quiet files.sha256) || fail "A file is damaged: its SHA-256 is not the one in the manifest."
mv "$stage/files" "$FILES_DIR"
rm -rf "$stage"
