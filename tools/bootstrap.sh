#!/usr/bin/env bash
# Brings a checkout to the point where its programs can run; every step is skipped when its result is there.
#
#   tools/bootstrap.sh run     the environment .venv: locked packages, the project editable
#   tools/bootstrap.sh types   the environment .venv-types: locked packages, the project installed as its users get it
#   tools/bootstrap.sh stack   as run, then the programs of the embedded stack, found or built
#
# Needs: any Python >= 3.8 with pip or venv, and Python >= 3.12 (may be the same). Nothing is written outside the
# checkout but the usual user caches (uv, Go, windlass).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PINNED=$(<.python-version)
readonly PINNED LOWEST=3.12
readonly UV_LOWEST=0.8 # reads this revision of uv.lock
readonly TOOL_VENV=.windlass/uv

export UV_PYTHON_DOWNLOADS=never # pythons come from the machine, never from an unpinned download
export UV_NO_PROGRESS=${UV_NO_PROGRESS:-1}
export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1

start_ms=$(date +%s%3N)
say() {
    local ms=$(($(date +%s%3N) - start_ms))
    printf '%4d.%d s  %s\n' $((ms / 1000)) $((ms % 1000 / 100)) "$*"
}

fail() {
    printf 'windlass: %s\n' "$1" >&2
    printf '  %s\n' "${@:2}" >&2
    exit 1
}

# Prints the interpreter behind the first candidate that is VERSION or newer. A pyenv shim exists also for versions
# that .python-version does not select: only running it tells.
python_at_least() {
    local version=$1 candidate
    for candidate in "python$PINNED" python3 python3.14 python3.13 python3.12 /usr/bin/python3 python \
        "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.*/bin/python3 "${HOME:-}"/.local/share/uv/python/*/bin/python3; do
        if "$candidate" -c "import sys
if sys.version_info < (${version/./, }): sys.exit(1)
print(sys._base_executable)" 2>/dev/null; then
            return
        fi
    done
    return 1
}

uv_will_do() {
    local version
    version=$("$1" --version 2>/dev/null | awk '{print $2}') || return 1
    [[ -n $version && $(printf '%s\n' "$UV_LOWEST" "$version" | sort -V | head -n 1) == "$UV_LOWEST" ]]
}

find_uv() {
    local candidate python installer
    for candidate in uv "$TOOL_VENV/bin/uv"; do
        if uv_will_do "$candidate"; then
            uv=$candidate
            return
        fi
    done
    python=$(python_at_least 3.8)
    say "installing uv into $TOOL_VENV"
    rm -rf "$TOOL_VENV"
    local pip=(--quiet --require-hashes --requirement tools/uv/requirements.txt)
    # Debian splits venv from Python; pip alone will do as well, into a folder of its own.
    if "$python" -m venv "$TOOL_VENV" >/dev/null 2>&1; then
        installer=("$TOOL_VENV/bin/python" -m pip install)
    elif "$python" -m pip --version >/dev/null 2>&1; then
        rm -rf "$TOOL_VENV"
        installer=("$python" -m pip install --target "$TOOL_VENV")
    else
        fail "$python has neither venv nor pip, and uv is not installed" \
            "install one of them, on Debian and Ubuntu: apt install python3-venv"
    fi
    uv=$TOOL_VENV/bin/uv
    if ! "${installer[@]}" "${pip[@]}" || ! uv_will_do "$uv"; then
        fail "uv could not be installed with $python" "see above; or install it yourself: https://docs.astral.sh/uv"
    fi
}

find_python() {
    python=$(python_at_least "$LOWEST") ||
        fail "no Python >= $LOWEST was found" \
            "install one (the project is developed with $PINNED), for example:" \
            "apt install python$PINNED, pyenv install $PINNED, or https://www.python.org/downloads"
}

sync() {
    local target=$1
    shift
    say "packages: $target"
    UV_PROJECT_ENVIRONMENT=$target "$uv" sync --quiet --locked --python "$python" "$@" ||
        fail "the locked packages could not be installed into $target" \
            "see above; the same command goes on where it stopped"
}

main() {
    local uv python
    find_python
    find_uv
    case ${1:-} in
    run | stack) sync .venv ;;
    types)
        # setuptools packs whatever an earlier build left in build/.
        rm -rf build
        sync .venv-types --no-editable --group types --reinstall-package windlass
        ;;
    *) fail "usage: tools/bootstrap.sh run|types|stack" ;;
    esac
    if [[ $1 == stack ]]; then
        say "programs of the embedded stack"
        UV=$(command -v "$uv") .venv/bin/python -m windlass.devstack
    fi
    say "set-up complete"
}

main "$@"
