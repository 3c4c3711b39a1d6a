#!/usr/bin/env bash
# Gradescope runs this once, when the autograder's image is built.
set -euo pipefail
apt-get install -y --no-install-recommends python3-venv
python3 -m venv /autograder/venv
# Wheels that lie beside this script are taken before anything from the network: see docs/teaching.md.
/autograder/venv/bin/pip install --quiet --find-links /autograder/source/wheels minidecode
