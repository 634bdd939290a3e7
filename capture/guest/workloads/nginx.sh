# SPDX-License-Identifier: GPL-2.0-or-later
PORT=80
start_server() {
    $box mkdir -p /var/log/nginx /var/lib/nginx /run/nginx
    cat >/run/nginx.conf <<'CONF'
worker_processes 1;
pid /run/nginx/pid;
error_log stderr;
user www-data;
events { worker_connections 512; }
http {
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    access_log /var/log/nginx/access.log;
    server { listen 192.0.2.1:80; root /srv/www; }
}
CONF
    on_server_cpu /usr/sbin/nginx -c /run/nginx.conf
}
