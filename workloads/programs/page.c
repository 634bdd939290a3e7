/* A page made on demand: run by a web server for each request (RFC 3875, CGI).
 *
 * The request's path ends in the size of a file below FILES, which is read and sent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES "/srv/www/f/"

int main(void) {
    const char *path = getenv("REQUEST_URI"), *slash = path == NULL ? NULL : strrchr(path, '/');
    char name[64], buffer[8192];
    long size = slash == NULL ? -1 : atol(slash + 1);
    snprintf(name, sizeof name, FILES "%ld", size);
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        printf("Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nno such page\n");
        return 0;
    }
    printf("Content-Type: application/octet-stream\r\nContent-Length: %ld\r\n\r\n", size);
    for (size_t got; (got = fread(buffer, 1, sizeof buffer, file)) > 0;) fwrite(buffer, 1, got, stdout);
    return 0;
}
