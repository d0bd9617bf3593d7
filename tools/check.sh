#!/usr/bin/env bash
# All static checks, each also when an earlier one failed; exit code 1 when any did. `make check` prepares .venv-types.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly BIN=.venv-types/bin
failed=()

check() {
    local name=$1 began=$SECONDS
    shift
    if "$@"; then
        printf 'ok      %s (%d s)\n' "$name" $((SECONDS - began))
    else
        printf 'FAILED  %s (%d s)\n' "$name" $((SECONDS - began))
        failed+=("$name")
    fi
}

# The artefact is what is checked: a module that packaging forgets is an unresolved import here. People want to
# read the paths of the checkout.
types() {
    local site
    site=$("$BIN/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || return
    # pyright leaves out hidden folders, counted from where its configuration lies.
    printf '{"extends": "%s", "include": ["windlass"]}\n' "$PWD/pyproject.toml" >"$site/pyrightconfig.json"
    "$BIN/pyright" --project "$site/pyrightconfig.json" --pythonpath "$BIN/python" |
        sed -E "s#$site/windlass/(activities|worker|workflows)/#\1/#; s#$site/windlass/#src/windlass/#"
}

check lint "$BIN/ruff" check --quiet .
check format "$BIN/ruff" format --check --quiet .
check types types
check imports "$BIN/lint-imports" --no-logo

if ((${#failed[@]})); then
    printf 'check: failed: %s\n' "${failed[*]}"
    exit 1
fi
printf 'check: all good\n'
