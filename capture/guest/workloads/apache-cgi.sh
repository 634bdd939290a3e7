# SPDX-License-Identifier: GPL-2.0-or-later
. /halfwink/environment
PORT=80
start_server() {
    $box mkdir -p /var/log/apache2 /run/apache2 /run/cgi
    /usr/bin/gcc -O2 -static -o /run/cgi/page "/halfwink/$SOURCE" || return 1
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
LoadModule alias_module modules/mod_alias.so
LoadModule cgi_module modules/mod_cgi.so
LoadModule env_module modules/mod_env.so
TypesConfig /etc/mime.types
StartServers 8
MinSpareServers 2
MaxSpareServers 10
MaxRequestWorkers 16
LogFormat "%h %l %u %t \"%r\" %>s %O" common
CustomLog /var/log/apache2/access.log common
DocumentRoot /srv/www
ScriptAliasMatch ^/f/ /run/cgi/page
# Apache drops the length that a program tells, unless it is trusted.
SetEnv ap_trust_cgilike_cl 1
<Directory /run/cgi>
    Require all granted
</Directory>
CONF
    on_server_cpu /usr/sbin/apache2 -f /run/apache.conf -k start
}
