# Shared by the scripts. The caller has changed to the root of the project.

fail() {
  echo "$0: $*" >&2
  exit 1
}

# Install Debian packages, or say the one line that does. Package lists are fetched only when they are needed.
install_packages() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    fail "missing packages; as root: apt-get install $*"
  fi
  echo "installing $*" >&2
  export DEBIAN_FRONTEND=noninteractive
  if ! apt-get -qq install --yes --no-install-recommends "$@" >/dev/null 2>&1; then
    apt-get -qq update >/dev/null || fail "apt-get update failed"
    apt-get -qq install --yes --no-install-recommends "$@" >/dev/null || fail "could not install $*"
  fi
}
