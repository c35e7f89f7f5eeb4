#!/usr/bin/env bash
# Chromium and its driver, and Node for the notebook widget, from Debian's packages, if they are not there yet.
set -euo pipefail
packages=()
command -v chromium >/dev/null && command -v chromedriver >/dev/null || packages+=(chromium chromium-driver)
command -v npm >/dev/null || packages+=(nodejs npm)
if [ ${#packages[@]} -eq 0 ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "The browser tests need chromium, chromedriver and npm on the PATH; install them with your package manager." >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
fi
echo "Installing ${packages[*]} from Debian's packages: one to two minutes ..."
ticking="$(dirname "$0")/../../.ci/ticking"
"$ticking" "apt-get update" "${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "$ticking" "apt-get install" "${as_root[@]}" apt-get install -y -qq "${packages[@]}" >/dev/null
