#!/bin/sh
# node: gets the npm packages of package-lock.json once, into the build directory, then runs enqueue.js. Without a network the
# test is skipped, and says so.
#
# usage: node.sh SOURCE-DIR BUILD-DIR
set -eu

source=$1
place=$2/node
mkdir -p "$place"
if ! cmp -s "$source/package-lock.json" "$place/done"; then
    cp "$source/package.json" "$source/package-lock.json" "$place/"
    if ! (cd "$place" && npm ci --ignore-scripts --no-audit --no-fund --fetch-retries=1 --fetch-retry-mintimeout=2000 >npm.log 2>&1); then
        sed 's/^/# /' "$place/npm.log" | tail -n 5
        echo '1..0 # SKIP npm could not get the packages of tests/interop/package-lock.json'
        exit 0
    fi
    cp "$source/package-lock.json" "$place/done"
fi
NODE_PATH=$place/node_modules exec node "$source/enqueue.js"
