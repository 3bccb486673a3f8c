# Sourced by scripts that build and test, in the root of the repository.

# step NUMBER NAME COMMAND…: says where it is, runs the command, and keeps its seconds for the end.
step() {
    local number=$1 name=$2 begin=$SECONDS status=0
    shift 2
    echo "${STEP_OF-}step $number: $name" >&2
    STEP_OF="${STEP_OF-}step $number, " "$@" || status=$?
    echo "phase $name: $((SECONDS - begin)) s" >>"$STEP_TIMES"
    return "$status"
}

# The script that was called keeps the phases of those that it calls, too, and prints all at its end.
begin_steps() {
    [ -z "${STEP_TIMES-}" ] || return 0
    export STEP_TIMES
    STEP_TIMES=$(mktemp)
    owns_steps=1
}

end_steps() {
    [ -n "${owns_steps-}" ] || return 0
    cat "$STEP_TIMES" >&2
    echo "phase all: $SECONDS s" >&2
    rm "$STEP_TIMES"
}

# check_disk GIGABYTES: warns where a first build, which fills that much, does not fit.
check_disk() {
    local target=${CARGO_TARGET_DIR:-target} free
    mkdir -p "$target"
    free=$(df --output=avail --block-size=1G "$target" | tail -n 1)
    if [ ! -e "$target/debug/deps" ] && [ "$free" -lt "$1" ]; then
        echo "warning: the first build fills $1 GB in $(realpath "$target"), and $((free)) GB are free" >&2
    fi
}

# The mark of the program that scripts/build has made for users, and the settings with which it is another one.
optimised=${CARGO_TARGET_DIR:-target}/debug/tool.optimised
settings=(CARGO_PROFILE_DEV_OPT_LEVEL CARGO_PROFILE_DEV_DEBUG CARGO_INCREMENTAL RUSTC_WORKSPACE_WRAPPER)

begin_product() {
    mkdir -p "$(dirname "$optimised")"
    rm -f "$optimised"
    touch "$optimised.begun"
}

end_product() {
    local name
    for name in "${settings[@]}"; do [ -z "${!name-}" ] || return 0; done
    mv "$optimised.begun" "$optimised"
}

# Puts that program back, which the tests replace by one without optimisation. Cargo still has its parts; where a source is
# newer it would compile for minutes, so that is left to the next scripts/build.
put_back() {
    if [ -e "$optimised" ] && [ -z "$(find Cargo.toml Cargo.lock host cli skills wit -newer "$optimised" -type f -print -quit)" ]; then
        env "${settings[@]/#/--unset=}" cargo build --quiet --locked --workspace --bin tool
    fi
}

# install_packages PACKAGE…: Debian's, whose services do not start.
install_packages() {
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    if ! command -v apt-get >/dev/null || ! command -v "${as_root[@]:-true}" >/dev/null; then
        echo "error: install $* as root" >&2
        return 1
    fi
    echo "installing $*" >&2
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -qq --yes --no-install-recommends "$@" >/dev/null
}
