/* What forwarding over UDP costs at least: the C echo that testbed/bench/__main__.py holds the forwarder against.
 *
 *     bench_echo PORT
 *
 * Binds a UDP socket on loopback, connects it to 127.0.0.1:PORT, prints its own port, and sends every
 * datagram back until it is killed. An empty datagram is answered by "USER SYS DATAGRAMS": processor time
 * of this process in microseconds, and the number of datagrams received and sent back so far.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

static long microseconds(struct timeval t)
{
    return t.tv_sec * 1000000L + t.tv_usec;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

int main(int argc, char **argv)
{
    static char buffer[65536];
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    long datagrams = 0;

    if (argc != 2)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a bench that is killed cannot reap it */

    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (s < 0)
        fail("socket");
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(s, (struct sockaddr *)&address, size) < 0)
        fail("bind");
    if (getsockname(s, (struct sockaddr *)&address, &size) < 0)
        fail("getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    address.sin_port = htons(atoi(argv[1]));
    if (connect(s, (struct sockaddr *)&address, size) < 0)
        fail("connect");

    for (;;) {
        ssize_t n = recv(s, buffer, sizeof buffer, 0);
        if (n < 0 && errno != ECONNREFUSED && errno != EINTR)
            fail("recv");
        if (n > 0) {
            datagrams += send(s, buffer, n, 0) == n;
        } else if (n == 0) {
            struct rusage used;
            getrusage(RUSAGE_SELF, &used);
            n = snprintf(buffer, sizeof buffer, "%ld %ld %ld", microseconds(used.ru_utime),
                         microseconds(used.ru_stime), datagrams);
            send(s, buffer, n, 0);
        }
    }
}
