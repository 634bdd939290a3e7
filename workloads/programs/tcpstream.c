/* Sends data over TCP as fast as it goes: 64 KB at a time, to a process that reads as much.
 *
 *   tcpstream COUNT WARM_UP
 *
 * Both run here and speak over the loopback device, which is brought up if this process may. After WARM_UP calls of
 * send recording starts. Prints how many bytes were sent and read. */
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mark.h"

#define BLOCK 65536

static char block[BLOCK];

/* A recorder's guest has no network of its own. */
static void bring_loopback_up(int any_socket) {
    struct ifreq request = {0};
    strcpy(request.ifr_name, "lo");
    if (ioctl(any_socket, SIOCGIFFLAGS, &request) == 0) {
        request.ifr_flags |= IFF_UP;
        ioctl(any_socket, SIOCSIFFLAGS, &request);
    }
}

static int read_all(int listener) {
    int connection = accept(listener, NULL, NULL);
    long bytes = 0, got;
    if (connection < 0) return 1;
    while ((got = recv(connection, block, BLOCK, 0)) > 0) bytes += got;
    printf("%ld bytes read\n", bytes);
    return got < 0;
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: tcpstream COUNT WARM_UP\n");
        return 2;
    }
    long calls = atol(words[1]), warm_up = atol(words[2]), bytes = 0;
    int listener = socket(AF_INET, SOCK_STREAM, 0), sender = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof place;
    bring_loopback_up(listener);
    /* Port 0: the kernel chooses one that is free. */
    if (bind(listener, (struct sockaddr *)&place, size) != 0 || listen(listener, 1) != 0
        || getsockname(listener, (struct sockaddr *)&place, &size) != 0) {
        perror("tcpstream: listen");
        return 1;
    }
    pid_t reader = fork();
    if (reader == 0) {
        close(sender); /* Else its end would never be seen. */
        return read_all(listener);
    }
    if (reader < 0 || connect(sender, (struct sockaddr *)&place, size) != 0) {
        perror("tcpstream: connect");
        return 1;
    }
    for (long i = 0; i < calls; i++) {
        if (i == warm_up) start_recording();
        long sent = send(sender, block, BLOCK, 0);
        if (sent < 0) return 1;
        bytes += sent;
    }
    close(sender);
    printf("%ld bytes sent\n", bytes);
    int status = 1;
    waitpid(reader, &status, 0);
    return status;
}
