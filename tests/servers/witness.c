/* A preloaded witness of what a process contacts.
 *
 * Appends one line to the file that RO_WITNESS_LOG names for each name that is
 * looked up ("name HOST") and each internet address that is connected to
 * ("connect ADDRESS PORT"), then lets the real function go on. With
 * RO_WITNESS_STALL set, a look-up of that name never returns: a name server
 * that does not answer.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void
note(const char *format, ...)
{
    const char *path = getenv("RO_WITNESS_LOG");
    char line[512];
    va_list arguments;
    int length, fd;

    if (path == NULL) {
        return;
    }
    va_start(arguments, format);
    length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof line) {
        abort();
    }
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length) {
        abort();
    }
    close(fd);
}

int
connect(int fd, const struct sockaddr *address, socklen_t length)
{
    int (*real)(int, const struct sockaddr *, socklen_t);
    char text[INET6_ADDRSTRLEN] = "?";

    *(void **)&real = dlsym(RTLD_NEXT, "connect");
    if (address != NULL && address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
        note("connect %s %d\n", text, ntohs(in->sin_port));
    }
    else if (address != NULL && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)address;
        inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof text);
        note("connect %s %d\n", text, ntohs(in6->sin6_port));
    }
    return real(fd, address, length);
}

int
getaddrinfo(const char *node, const char *service,
            const struct addrinfo *hints, struct addrinfo **result)
{
    int (*real)(const char *, const char *, const struct addrinfo *,
                struct addrinfo **);
    const char *stall = getenv("RO_WITNESS_STALL");

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    note("name %s\n", node != NULL ? node : "(null)");
    while (stall != NULL && node != NULL && strcmp(stall, node) == 0) {
        sleep(1);
    }
    return real(node, service, hints, result);
}
