# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/environment
PORT=80
start_server() {
    $box mkdir -p /run/shop
    /usr/bin/java -m jdk.compiler/com.sun.tools.javac.Main -d /run/shop "/halfwink/$SOURCE" || return 1
    # The answer's head and body are two writes, which must not wait for each other.
    # shellcheck disable=SC2086 # these are several arguments
    on_server_cpu /usr/bin/java $ARGUMENTS >/dev/null 2>/run/shop.log &
}
