# Sourced by the scripts that test the C libraries: what a program that links one relies on. They have set `folder`, where
# logs go.

strict=(-Wall -Wextra -Werror -pedantic)

# quietly LABEL COMMAND...: its output only where it fails.
quietly() {
  local label=$1
  shift
  "$@" >"$folder/log" 2>&1 </dev/null || { tail -n 40 "$folder/log" | cut -c 1-400; fail "$label"; }
}

# run LABEL COMMAND...: a program that has to end by itself, with status 0.
run() {
  local label=$1
  shift
  say "$label"
  timeout -k 5 120 "$@" </dev/null || fail "$label: status $?"
}

# same WHAT EXPECTED FOUND
same() { [[ $2 == "$3" ]] || fail "$1: $(diff <(echo "$2") <(echo "$3") | grep '^[<>]')"; }

# declared HEADER PREFIX: its functions.
declared() { gcc -E -P "$1" | grep -oE "\b$2\w+\(" | tr -d '(' | sort -u; }

# check_exports HEADER PREFIX SHARED ARCHIVE: what is exported is what the header declares, no more and no less; in the shared
# library with a version.
check_exports() {
  local declared exported
  declared=$(declared "$1" "$2")
  exported=$(nm -D --defined-only "$3" | awk '$2 != "A" { print $3 }' | sort)
  same "exported is not what is declared" "$declared" "$(sed 's/@@.*//' <<<"$exported")"
  [[ $(grep -c '@@OPPORTUNE_' <<<"$exported") -eq $(wc -l <<<"$declared") ]] || fail "not all symbols have a version"
  same "the archive's global symbols are not what is declared" "$declared" \
    "$(nm -g --defined-only "$4" | awk 'NF == 3 { print $3 }' | sort)"
}

# check_needs SHARED SONAME LIBRARIES: it needs no more than the named libraries, an expression for grep -E.
check_needs() {
  local needed
  needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE "^($3|ld-linux.*)\.so\.[0-9]+$" || true)
  [[ -z $needed ]] || fail "it needs more than $3: $needed"
  readelf -d "$1" | grep SONAME | grep -qF "[$2]" || fail "the soname is not $2"
}

# check_program PROGRAM LIBRARIES: it loads no more than these and the kernel's and the loader's own.
check_program() {
  local foreign
  foreign=$(ldd "$1" | awk '{ print $1 }' | grep -vE "^(linux-vdso|$2|/.*/ld-linux.*)\.so\." || true)
  [[ -z $foreign ]] || fail "a program that uses the library loads more than $2: $foreign"
}

# check_headers C CXX: each alone, by both compilers.
check_headers() {
  local compiler standard
  for compiler in gcc clang; do
    command -v "$compiler" >/dev/null || fail "$compiler is not in PATH; clang comes with Swift, in its usr/bin folder."
    quietly "C11, $compiler" "$compiler" -std=c11 -x c -fsyntax-only "${strict[@]}" -Wstrict-prototypes -include "$1" /dev/null
    for standard in c++11 c++17; do
      quietly "$standard, $compiler" "${compiler/gcc/g}++" -std=$standard -x c++ -fsyntax-only "${strict[@]}" -include "$1" /dev/null
    done
    quietly "${2##*/}, $compiler" "${compiler/gcc/g}++" -std=c++17 -x c++ -fsyntax-only "${strict[@]}" -Wshadow -include "$2" /dev/null
  done
}

# check_removed FOLDER [FILE]: nothing is left in it, but for the file of others.
check_removed() {
  local left
  left=$(find "$1" ! -type d)
  [[ $left == "${2:-}" ]] || fail "left behind, or taken away: $left"
}
