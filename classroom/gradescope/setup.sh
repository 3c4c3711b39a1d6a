#!/usr/bin/env bash
# Gradescope runs this once, when the autograder's image is built. A test runs it, with another AUTOGRADER.
set -euo pipefail
root=${AUTOGRADER:-/autograder}
. "$root/source/settings.sh" # MINIDECODE_FROM

if [ -n "${MINIDECODE_FROM:-}" ]; then
    what=("minidecode @ $MINIDECODE_FROM")
elif ls "$root"/source/wheels/minidecode-*.whl >/dev/null 2>&1; then # its dependencies may come from the network
    what=(--find-links "$root/source/wheels" "$root"/source/wheels/minidecode-*.whl)
else
    echo "settings.sh does not say where minidecode comes from, and wheels/ has no wheel of it: fill in MINIDECODE_FROM" >&2
    exit 1
fi
apt-get install -y --no-install-recommends python3-venv git
python3 -m venv "$root/venv"
"$root/venv/bin/pip" install --quiet "${what[@]}"
