#!/bin/sh
# A host, two apps that have manifests and a program that has none. Options are the host's: --backend signals
set -eu
work=$(mktemp -d)
# A socket of its own, so that no other host is disturbed. Without --socket each command finds its user's host.
opp() { command=$1; shift; opportune "$command" --socket "$work/host.sock" "$@"; }
states() { echo "$1:" $(opp apps --all | awk 'NR > 1 { print $1, $2 }'); }

mkdir "$work/apps"
cat > "$work/apps/indexer.json" <<'END'
{
  "CFBundleIdentifier": "indexer",
  "OpportuneCommand": ["sleep", "600"],
  "OpportuneGraceSeconds": 2
}
END
cat > "$work/apps/player.desktop" <<'END'
[Desktop Entry]
Type=Application
Name=Player
Exec=sleep 600
X-Opportune-BackgroundModes=audio;
END

opportune host --socket "$work/host.sock" --manifests "$work/apps" --front none --bus none "$@" > "$work/log" 2>&1 &
host=$!
end() { for app in indexer player; do opp terminate $app || true; done; kill $host; wait $host || true; rm -r "$work"; }
trap end EXIT
until grep -q '^The host listens' "$work/log"; do sleep 0.1; done

states "known"
opp run indexer > "$work/started"
opp run --foreground player > "$work/started"
states "started"
opp suspend indexer
states "suspended"
opp front indexer
states "in front"
opp suspend player || states "kept by its manifest"
opp keep indexer --for 1h --reason "a backup"
opp suspend indexer || states "kept by its user"
opp keep indexer --end
opp suspend indexer
states "no longer kept"
opp run --name build -- sh -c 'test -n "$OPPORTUNE_APP"; echo "this program is an app; the next line is its status"; exit 3' || echo "$?"
opp run build || echo "build has no manifest"
opp terminate indexer
opp terminate player
until opp apps | grep -q '^no app runs'; do sleep 0.1; done
states "terminated"
trap - EXIT
kill $host
wait $host
rm -r "$work"
