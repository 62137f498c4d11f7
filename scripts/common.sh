# Sourced by the scripts beside it: messages, and what must be installed before anything can be built.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '==> %s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# The comment at the top of the script that has sourced this: what its --help prints.
print_help() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "scripts/${0##*/}"; }

# Before anything is built or installed. A script whose help is that of a program sets own_help.
if [[ ${own_help:-} != yes && (${1:-} == --help || ${1:-} == -h) ]]; then
  print_help
  exit
fi

# Builds by the scripts say of which commit they are; -dirty where something is changed.
name_commit() {
  OPPORTUNE_COMMIT=$(git describe --always --dirty --exclude '*' 2>/dev/null) || return 0
  export OPPORTUNE_COMMIT
}

# together FUNCTION...: runs the functions at once, and prints what each has written, one after the other, so that lines do
# not mix; also where this is ended by a signal. Fails where one of them does.
together() {
  local name status=0
  local -A processes=()
  together_logs=$(mktemp -d)
  trap 'tail -n +1 "$together_logs"/*; rm -r "$together_logs"; exit 143' TERM
  for name in "$@"; do
    "$name" >"$together_logs/$name" 2>&1 </dev/null &
    processes[$name]=$!
  done
  for name in "$@"; do
    wait "${processes[$name]}" || status=1
    cat "$together_logs/$name"
    rm "$together_logs/$name"
  done
  trap - TERM
  rmdir "$together_logs"
  return "$status"
}

# Fails unless swift is there and no older than README says: the sources need more than the format of Package.swift does.
need_swift() {
  local wanted=6.2 found
  command -v swift >/dev/null ||
    fail "swift is not in PATH. Install Swift $wanted or newer (https://www.swift.org/install/linux/) and put its usr/bin folder into PATH."
  found=$(swift --version 2>/dev/null) || true
  [[ $found =~ Swift\ version\ ([0-9][0-9.]*) ]] && found=${BASH_REMATCH[1]} || found=
  [[ -n $found ]] ||
    fail "'swift --version' names no version; $(command -v swift) is perhaps not Swift, or a library that it needs is missing."
  [[ $(printf '%s\n%s\n' "$wanted" "$found" | sort -V | head -n 1) == "$wanted" ]] ||
    fail "Swift $found is too old: Opportune needs $wanted or newer (https://www.swift.org/install/linux/)."
  command -v git >/dev/null ||
    fail "git is not in PATH. Swift's package manager fetches the dependencies with it: install git."
}

# Whether this Swift is one that makes libopportune.
makes_libopportune() {
  command -v swiftc >/dev/null && swiftc -print-target-info | grep -qE '"compilerVersion".*Swift version (6\.([3-9]|[1-9][0-9])|[7-9]|[1-9][0-9])'
}

# Whether what the Debian package provides is there, however it came there.
is_present() {
  case $1 in
  liburing-dev) pkg-config --exists liburing 2>/dev/null ;;
  libnuma-dev) pkg-config --exists numa 2>/dev/null ;;
  libsqlite3-dev) pkg-config --exists sqlite3 2>/dev/null ;;
  libzstd-dev) pkg-config --exists libzstd 2>/dev/null ;;
  libxxhash-dev) pkg-config --exists libxxhash 2>/dev/null ;;
  libgeographiclib-dev) pkg-config --exists geographiclib 2>/dev/null ;;
  libgeos-dev) pkg-config --exists geos 2>/dev/null ;;
  librocksdb-dev) pkg-config --exists rocksdb 2>/dev/null ;;
  libck-dev) [[ -e /usr/include/ck_fifo.h ]] ;;
  libboost-dev) [[ -e /usr/include/boost/lockfree/queue.hpp ]] ;;
  libconcurrentqueue-dev) [[ -e /usr/include/concurrentqueue/concurrentqueue.h ]] ;;
  qemu-user) command -v qemu-x86_64 >/dev/null ;;
  qemu-system-x86) command -v qemu-system-x86_64 >/dev/null ;;
  debootstrap) [[ -x /usr/sbin/debootstrap ]] ;; # nor these in everyone's path
  e2fsprogs) [[ -x /usr/sbin/mke2fs || -x /sbin/mke2fs ]] ;;
  binutils) command -v nm >/dev/null ;;
  dpkg-dev) command -v dpkg-shlibdeps >/dev/null ;;
  dbus) command -v dbus-daemon >/dev/null ;;
  libglib2.0-bin) command -v gdbus >/dev/null ;;
  xvfb) command -v Xvfb >/dev/null ;;
  gpsd) [[ -x /usr/sbin/gpsd ]] ;; # not in everyone's path
  iproute2) [[ -x /sbin/ip ]] ;;
  *) command -v "$1" >/dev/null ;;
  esac
}

# Installs those of the named Debian packages that are missing. Does nothing, quickly, when none is.
need_packages() {
  local package missing=() as_root=() log
  for package in "$@"; do
    is_present "$package" || missing+=("$package")
  done
  [[ ${#missing[@]} -gt 0 ]] || return 0

  command -v apt-get >/dev/null ||
    fail "missing: ${missing[*]}. There is no apt-get here: install what these Debian packages hold with your own package manager."
  if [[ $(id -u) -ne 0 ]]; then
    command -v sudo >/dev/null ||
      fail "missing: ${missing[*]}. Installing them takes root or sudo, and here is neither. Ask an administrator for: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y)

  say "Installing ${missing[*]} with apt-get"
  log=$(mktemp)
  # Lists that cannot be refreshed may still be good enough; the installation decides.
  "${as_root[@]}" update >"$log" 2>&1 || true
  if ! "${as_root[@]}" install --no-install-recommends "${missing[@]}" >>"$log" 2>&1; then
    tail -n 15 "$log" >&2
    rm -f "$log"
    fail "apt-get could not install ${missing[*]}; its last lines are above."
  fi
  rm -f "$log"
  for package in "${missing[@]}"; do
    is_present "$package" || fail "apt-get installed $package, yet it is not found; look at 'dpkg -L $package'."
  done
}
