# SPDX-License-Identifier: GPL-2.0-or-later
PORT=80
start_server() {
    $box mkdir -p /var/log/apache2 /run/apache2
    # Many files of each size, all different: each begins with its name.
    for size in 512 1024 2048 4096 6144 8192 16384 32768; do
        $box mkdir -p "/srv/www/d/$size"
        n=0
        while [ $n -lt "$ITEMS" ]; do
            { echo "$size $n"; $box head -c "$size" /halfwink/busybox; } |
                $box head -c "$size" >"/srv/www/d/$size/$n"
            n=$((n + 1))
        done
    done
    cat >/run/apache.conf <<'CONF'
ServerRoot /usr/lib/apache2
ServerName server
Listen 192.0.2.1:80
PidFile /run/apache2/pid
ErrorLog /var/log/apache2/error.log
User www-data
Group www-data
LoadModule mpm_prefork_module modules/mod_mpm_prefork.so
LoadModule authz_core_module modules/mod_authz_core.so
LoadModule mime_module modules/mod_mime.so
LoadModule dir_module modules/mod_dir.so
TypesConfig /etc/mime.types
StartServers 8
MinSpareServers 2
MaxSpareServers 10
MaxRequestWorkers 16
LogFormat "%h %l %u %t \"%r\" %>s %O" common
CustomLog /var/log/apache2/access.log common
DocumentRoot /srv/www
# Read and written, so that the server touches what it sends.
EnableSendfile Off
EnableMMAP Off
<Directory /srv/www>
    Require all granted
</Directory>
CONF
    on_server_cpu /usr/sbin/apache2 -f /run/apache.conf -k start
}
