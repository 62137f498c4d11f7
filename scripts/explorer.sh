# Sourced by the scripts that build or install the explorer for code of others, which docs/guide/explore.md is about.

explorer=CSupport/Tools/COpportuneExplorer
# What such code includes.
explorer_headers=(opp_explorer.h opp_linear.h opp_own.h opp_sync_checked.h)
explorer_example=docs/examples/explore/queue.c

# build_explorer FOLDER: FOLDER/explorer.a, anew where one of its sources is newer. CC is the compiler (default: clang, or cc).
build_explorer() {
  local build=$1 source compiler=${CC:-clang}
  command -v "$compiler" >/dev/null || compiler=cc
  mkdir -p "$build"
  if [[ -e $build/explorer.a && -z $(find "$explorer" Tests/explorer/own.c -newer "$build/explorer.a" -print -quit) ]]; then return; fi
  for source in "$explorer"/*.c Tests/explorer/own.c; do
    # Not each compiler knows what may be null.
    "$compiler" -std=c11 -O2 -g -D_GNU_SOURCE -D_Nonnull= -D_Nullable= -I"$explorer/include" \
      -c "$source" -o "$build/$(basename "$source" .c).o" || return 3
  done
  rm -f "$build/explorer.a"
  ar rcs "$build/explorer.a" "$build"/*.o
}

# explore_script NAME HEADERS ARCHIVE EXAMPLE: the script that explores a file, by its name and by where these are.
explore_script() {
  sed -e "s|@NAME@|$1|g" -e "s|@HEADERS@|$2|" -e "s|@ARCHIVE@|$3|" -e "s|@EXAMPLE@|$4|" \
    scripts/install.d/opportune-explore.in
}
