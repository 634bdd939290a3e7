# SPDX-License-Identifier: GPL-2.0-or-later
PORT=11211
start_server() {
    on_server_cpu /usr/bin/memcached -d -u nobody -l 192.0.2.1 -t 1 -m 64
}
