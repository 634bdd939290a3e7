# SPDX-License-Identifier: GPL-2.0-or-later
PORT=6379
start_server() {
    on_server_cpu /usr/bin/redis-server --bind 192.0.2.1 --protected-mode no --save '' --appendonly no \
        --daemonize yes --logfile /run/redis.log --pidfile /run/redis.pid
}
